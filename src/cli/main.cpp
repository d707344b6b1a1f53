#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/in_flight.h"
#include "base/shell_word.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "cli/completion/scripts.h"
#include "cli/launch/rank_place.h"
#include "cli/option_text.h"
#include "cli/other_words.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "train/signals.h"

namespace {

void print_help() {
  const std::string text = ct::str(
      ct::help_line("cifar-train: trains image classifiers on CPUs and NVIDIA GPUs, on one core or many hosts."), "\n",
      ct::help_line("usage: cifar-train [VERB] [OPTIONS]"),
      ct::help_line("       mpirun -np 4 cifar-train --config default.yaml"), "\n",
      ct::verb_list(ct::verbs(), ct::help_columns()), "\n",
      ct::help_line("cifar-train VERB --help lists the options of a verb; cifar-train --version the libraries."));
  std::fputs(text.c_str(), stdout);
}

/// Verbs of this program's own scripts and builds, which no help lists.
constexpr std::pair<std::string_view, int (*)(const ct::Words&)> kHidden[] = {{ct::kCompleteVerb, ct::complete},
                                                                              {"__man", ct::print_man_page}};

/// Training is the default verb, so its options may come first.
bool trains(const ct::Words& words) {
  constexpr std::string_view kOthers[] = {"--help", "-h", "--version"};
  if (words.empty() || words[0] == "train") return true;
  return words[0].starts_with('-') && std::find(std::begin(kOthers), std::end(kOthers), words[0]) == std::end(kOthers);
}

/// Is it worth stopping in order, for what is saved then?
bool stops_on_request(const ct::Words& words) { return trains(words) || words[0] == "sweep" || words[0] == "compare"; }

[[noreturn]] void fail_for_verb(const std::string& word) {
  if (word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json"))
    ct::fail(ct::ExitCode::usage, ct::in_quotes(word), " is not a verb; to train with it: cifar-train --config ",
             ct::shell_word(word));
  const std::string near = ct::verb_meant(word);
  ct::fail(ct::ExitCode::usage, "no verb is called ", ct::in_quotes(word), near.empty() ? "" : "; did you mean '", near,
           near.empty() ? "" : "'?", near.empty() ? "; there are " : " There are ",
           ct::joined(ct::verbs(), ", ", &ct::Verb::name));
}

/// `help VERB`, `help data fetch`: a further word is a mistake.
void require_no_more_than_a_verb(const ct::Words& words, const ct::Verb& verb) {
  const size_t most = verb.has_commands ? 3 : 2;
  if (words.size() > most)
    ct::fail(ct::ExitCode::usage, ct::in_quotes(words[most]), " is not expected; see cifar-train help ", verb.name);
}

int run(ct::Words words) {
  const auto verbs = ct::verbs();
  if (!words.empty()) {
    if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
      if (words.size() == 1) return print_help(), 0;
      for (const ct::Verb& verb : verbs)
        if (words[1] == verb.name) require_no_more_than_a_verb(words, verb);
      words.erase(words.begin());  // help VERB, help data fetch
      words.emplace_back("--help");
    }
    for (const auto& [name, print] : kHidden)
      if (words[0] == name) return print({words.begin() + 1, words.end()});
    if (words[0] == "--version") return ct::print_version({words.begin() + 1, words.end()}), 0;
    const auto verb = std::find_if(verbs.begin(), verbs.end(), [&](const ct::Verb& v) { return words[0] == v.name; });
    if (verb != verbs.end()) {
      // Under a launcher, what concerns one process is done by one.
      if (!verb->on_all_ranks && ct::launch_rank() > 0) return 0;
      if (verb->on_all_ranks) ct::take_place(ct::own_environment());
      return verb->run({words.begin() + 1, words.end()});
    }
    if (!words[0].starts_with('-')) fail_for_verb(words[0]);
  }
  ct::take_place(ct::own_environment());
  return ct::verb_train(words);
}

/// All has reached standard output, or Error(io).
void flush_output() {
  std::fflush(stdout);
  if (const int error = ct::output_error())
    ct::fail(
        ct::ExitCode::io, "standard output could not be written: ", std::strerror(error),
        error == EBADF ? "; it is closed: redirect it to a file, a pipe or /dev/null" : "; check its disk or pipe");
}

/// Threads get as much stack as this process may have.
void require_stack() {
  constexpr rlim_t kLeast = 512 << 10;
  struct rlimit limit {};
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kLeast)
    ct::fail(ct::ExitCode::memory, "the limit of a stack's size (ulimit -s) is ", limit.rlim_cur >> 10,
             " kB: raise it to ", kLeast >> 10, " or more");
}

/// Each heap of a thread would reserve 64 MiB of addresses, which a limit of addresses (ulimit -v) counts as used.
void share_one_heap_under_a_limit() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
}

/// The daemon that started this process may have let it ignore the ends of its children, for which a launcher and a
/// sweep wait, or hold requests to stop back.
void take_signals() {
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  // First of all: no file that is opened later may become a standard stream, and a request to stop counts from the
  // first moment.
  ct::open_missing_streams();
  if (stops_on_request({argv + 1, argv + argc})) ct::StopSignals::install();
  take_signals();
  share_one_heap_under_a_limit();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit (ulimit -f) is a failed write, as on a full disk
  try {
    ct::watch_output();
    require_stack();
    const int code = run({argv + 1, argv + argc});
    if (code <= 1) flush_output();  // 1: `ckpt diff` found differences, and printed them
    return code;
  } catch (...) {
    return ct::report_failure(ct::error_in_flight());
  }
}
