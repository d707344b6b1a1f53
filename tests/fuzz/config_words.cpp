#include <sstream>

#include "target.h"
#include "train/config/foreign.h"
#include "train/config/load.h"

namespace ct::fuzz::config_words {
namespace {

/// The first line is a base64 text in place of a file's name, each other line a word of --set.
void read(Input input) {
  std::istringstream lines{std::string(text_of(input))};
  ConfigSources sources;
  std::string encoded;
  std::getline(lines, encoded);
  if (text_in_place_of(encoded)) sources.files = {encoded};
  for (std::string set; std::getline(lines, set);) sources.sets.push_back(set);
  std::vector<std::string> warnings;
  load_config(sources, &warnings);
}

const Registered registered({.name = "config_words", .refusals = {ExitCode::usage}, .read = read});

}  // namespace
}  // namespace ct::fuzz::config_words
