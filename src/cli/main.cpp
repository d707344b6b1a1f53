#include <algorithm>
#include <cstdio>
#include <new>

#include "base/error.h"
#include "base/version.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "cli/versions.h"

namespace {

void print_help() {
  std::fputs("cifar-train: trains image classifiers on CPUs, on one core or many.\n\n", stdout);
  std::fputs("usage: cifar-train [VERB] [OPTIONS]\n       mpirun -np 4 cifar-train --config default.yaml\n\n", stdout);
  for (const ct::Verb& verb : ct::verbs()) std::printf("  %-8s  %s\n", verb.name, verb.summary);
  std::fputs("\ncifar-train VERB --help lists the options of a verb; cifar-train --version the libraries.\n", stdout);
}

int run(const ct::Words& words) {
  const auto verbs = ct::verbs();
  if (!words.empty()) {
    if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") return print_help(), 0;
    if (words[0] == "--version") return std::fputs(ct::version_text().c_str(), stdout), 0;
    const auto verb = std::find_if(verbs.begin(), verbs.end(), [&](const ct::Verb& v) { return words[0] == v.name; });
    if (verb != verbs.end()) return verb->run({words.begin() + 1, words.end()});
    if (!words[0].starts_with('-')) {
      std::string known;
      for (const ct::Verb& v : verbs) known += (known.empty() ? "" : ", ") + std::string(v.name);
      ct::fail(ct::ExitCode::usage, "no verb is called '", words[0], "'; there are ", known);
    }
  }
  return ct::verb_train(words);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const ct::Error& e) {
    return ct::report_failure(static_cast<int>(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return ct::report_failure(static_cast<int>(ct::ExitCode::memory),
                              "out of memory: use a smaller micro-batch or fewer ranks on this machine");
  } catch (const std::exception& e) {
    return ct::report_failure(static_cast<int>(ct::ExitCode::bug), std::string("internal error: ") + e.what());
  }
}
