// The verbs of the command line: one file each. A verb parses its own words and returns the exit code; what goes wrong
// is thrown as Error and printed once, by main().
#pragma once

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
  bool on_all_ranks = false;  // under a launcher; else rank 0 does it alone
};
std::span<const Verb> verbs();

int verb_train(const Words& words);
int verb_eval(const Words& words);
int verb_export(const Words& words);
int verb_config(const Words& words);
int verb_data(const Words& words);
int verb_ckpt(const Words& words);
int verb_bench(const Words& words);
int verb_sweep(const Words& words);
int verb_launch(const Words& words);
int verb_jobscript(const Words& words);
int verb_estimate(const Words& words);
int verb_doctor(const Words& words);
int verb_selftest(const Words& words);

/// Why this is no device, for CLI::Option::check; empty: it is one.
std::string device_problem(const std::string& word);

/// Why this is no whole number of 0 or more, or of 1 or more, likewise.
std::string count_problem(const std::string& word);
std::string positive_problem(const std::string& word);

/// A few lines: version and commit, compiler, libraries, instruction set, kinds of GPUs. Opens no library and no
/// device.
std::string version_text();

/// "warning: ..." on stderr; nothing of an empty text.
void warn(const std::string& text);

/// Parses `words` into `app`. False when help was asked for and printed; a wrong word is Error(usage) naming it.
bool parse(CLI::App& app, const Words& words);

}  // namespace ct
