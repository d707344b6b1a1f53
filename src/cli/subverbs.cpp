#include "cli/subverbs.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "train/config/suggest.h"

namespace ct {

int run_family(const Family& family, const Words& words) {
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "help")) {
    std::printf("cifar-train %s: %s\n\n", family.name, family.summary);
    for (const Verb& member : family.members) std::printf("  %-8s  %s\n", member.name, member.summary);
    std::printf("\ncifar-train %s COMMAND --help lists the options of a command.\n%s", family.name,
                examples_of(family.name).c_str());
    return 0;
  }
  for (const Verb& member : family.members) {
    if (words.empty() || words[0] != member.name) continue;
    const int code = member.run({words.begin() + 1, words.end()});
    const bool helps = std::ranges::any_of(words, [](const std::string& w) { return w == "--help" || w == "-h"; });
    if (helps && code == 0) std::fputs(examples_of(member).c_str(), stdout);
    return code;
  }
  const std::string known = joined(family.members, ", ", &Verb::name);
  if (words.empty()) fail(ExitCode::usage, family.name, " needs a command: ", known);
  std::vector<std::string> names;
  for (const Verb& member : family.members) names.emplace_back(member.name);
  const std::string near = nearest(words[0], names);
  fail(ExitCode::usage, in_quotes(words[0]), " is not a command of ", family.name,
       near.empty() ? "" : "; did you mean '" + near + "'?", near.empty() ? ": give one of " : " There are ", known);
}

std::string plain(const std::string& text) {
  const std::string quoted = in_quotes(text);
  return quoted.substr(1, quoted.size() - 2) == text ? text : quoted;
}

}  // namespace ct
