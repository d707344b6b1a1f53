#include "cli/subverbs.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/option_text.h"
#include "cli/verb_reader.h"
#include "train/config/suggest.h"

namespace ct {

int run_family(const Family& family, const Words& words) {
  if (const VerbReader* reader = verb_reader()) return reader->commands(family), 0;
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "help")) {
    const std::string text =
        str(help_line(str("cifar-train ", family.name, ": ", family.summary)), "\n",
            verb_list(family.members, help_columns()), "\n",
            help_line(str("cifar-train ", family.name, " COMMAND --help lists the options of a command.")),
            examples_of(family.name));
    std::fputs(text.c_str(), stdout);
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
