// cifar-train completion: the script by which a shell completes the words of this program, and what that script asks.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/utf8.h"
#include "cli/completion/candidates.h"
#include "cli/completion/scripts.h"
#include "cli/verbs.h"

namespace ct {

int verb_completion(const Words& words) {
  CLI::App app("Prints a script by which a shell completes verbs, options, their values, keys of --set and files.",
               "cifar-train completion");
  std::string shell;
  app.add_option("SHELL", shell, "bash | zsh | fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  if (!parse(app, words)) return 0;
  std::fputs(completion_script(shell), stdout);
  return 0;
}

int complete(const Words& words) {
  const Candidates found = candidates(words);
  for (const Candidate& candidate : found.words)
    std::printf("%s\t%s\n", candidate.word.c_str(), printable(candidate.about).c_str());
  if (found.files == Candidates::Files::any) std::puts(":files");
  if (found.files == Candidates::Files::folders) std::puts(":folders");
  return 0;
}

}  // namespace ct
