// The verbs of the command line: one file each. A verb parses its own words and returns the exit code; failures are
// thrown as Error, which main() prints once.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ct {

/// The words after the verb.
using Words = std::vector<std::string>;

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(const Words& words);
  std::array<const char*, 2> examples;  // at the end of its help
  bool on_all_ranks = false;            // under a launcher: runs on all ranks; false: on rank 0 only
  bool has_commands = false;            // its first word is a command, which has options of its own
};
std::span<const Verb> verbs();

int verb_train(const Words& words);
int verb_eval(const Words& words);
int verb_predict(const Words& words);
int verb_export(const Words& words);
int verb_config(const Words& words);
int verb_data(const Words& words);
int verb_ckpt(const Words& words);
int verb_bench(const Words& words);
int verb_lr_find(const Words& words);
int verb_sweep(const Words& words);
int verb_compare(const Words& words);
int verb_report(const Words& words);
int verb_launch(const Words& words);
int verb_jobscript(const Words& words);
int verb_estimate(const Words& words);
int verb_doctor(const Words& words);
int verb_selftest(const Words& words);
int verb_completion(const Words& words);

/// Of the scripts of `completion`: lists what may come next, "WORD<tab>DESCRIPTION", and :files or :folders for the
/// shell's own.
int complete(const Words& words);

/// Prints the man page as troff, with the date in its word.
int print_man_page(const Words& words);

/// The reason why this is not a device, for CLI::Option::check; empty: it is one.
std::string device_problem(const std::string& word);

/// The same for whole numbers of 0 or more, and of 1 or more.
std::string count_problem(const std::string& word);
std::string positive_problem(const std::string& word);
/// A check that takes numbers of that range; CLI::Range would take NaN too.
std::function<std::string(const std::string& word)> number_between(double least, double most);

/// The examples that end the help of a verb; empty: it is none, as `show` of `config show`.
std::string examples_of(const Verb& verb);
std::string examples_of(const std::string& verb);

/// Prints "warning: ..." on stderr; nothing for an empty text.
void warn(const std::string& text);

/// Parses `words` into `app`. Returns false if help was requested and printed; a wrong word is Error(usage).
bool parse(CLI::App& app, const Words& words);

}  // namespace ct
