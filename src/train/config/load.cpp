#include "train/config/load.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "train/config/document.h"
#include "train/config/foreign.h"
#include "train/config/merge.h"
#include "train/config/validate.h"

namespace ct {
namespace {

using document::Node;
using document::quoted;

ConfigOverride split_set(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(ExitCode::usage, "--set ", quoted(word), ": write --set key=value, such as --set train.epochs=1");
  constexpr size_t kLongest = 200;  // of what errors repeat
  const std::string shown = word.size() <= kLongest ? word : word.substr(0, std::min(equals, kLongest)) + "=...";
  return {word.substr(0, equals), word.substr(equals + 1), "--set " + shown};
}

struct MergedFiles {
  Merge merge;
  std::string where;  // of what the files lack: the last one
};

/// The files, and what is fitted to the input.
MergedFiles merged_files(const ConfigSources& sources, std::vector<std::string>* warnings) {
  MergedFiles files;
  for (const auto& file : sources.files) {
    const Node root = document::read_file(file);
    const bool empty = root.entries.empty();
    if (empty) warnings->push_back(str(source_name(file), " is empty and has no effect"));
    files.where = source_name(file) + (empty ? " is empty: " : ": ");
    if (sources.begins_with_default && &file != &sources.files.front()) files.merge.give_way_to(root);
    files.merge.add_file(root);
  }
  for (const ConfigOverride& choice : sources.fitted) files.merge.add_override(choice);
  return files;
}

/// The file with the optimizer beside one that has none: "cifar_ds_config.json" of "cifar_deepspeed.yaml". Empty: none.
std::filesystem::path other_half(const std::filesystem::path& file) {
  constexpr std::string_view kEnd = "_ds_config.json";
  const std::string stem = file.stem().string();
  std::error_code error;
  for (size_t end = stem.size(); end != stem.npos && end > 0; end = stem.rfind('_', end - 1)) {
    const auto other = file.parent_path() / (stem.substr(0, end) + std::string(kEnd));
    if (std::filesystem::exists(other, error)) return other;
  }
  return {};
}

}  // namespace

std::vector<ConfigOverride> keys_of_flags(const ConfigSources& sources, std::vector<std::string>* warnings) {
  std::vector<std::string> of_files;  // which load_config() gives
  if (!sources.flags) return {};
  return sources.flags(merged_files(sources, &of_files).merge, warnings);
}

Config load_config(const ConfigSources& sources, std::vector<std::string>* warnings) {
  auto [merge, where] = merged_files(sources, warnings);
  std::vector<ConfigOverride> words;
  if (sources.flags) words = sources.flags(merge, warnings);
  words.insert(words.end(), sources.overrides.begin(), sources.overrides.end());
  for (const std::string& set : sources.sets) words.push_back(split_set(set));
  words.insert(words.end(), sources.swept.begin(), sources.swept.end());
  // A type clears its params, so it goes first: --set optimizer.params.lr=… --set optimizer.type=… means the same
  // either way.
  std::stable_partition(words.begin(), words.end(), [](const ConfigOverride& word) {
    return word.key == "optimizer.type" || word.key == "scheduler.type";
  });
  for (const ConfigOverride& word : words) {
    if (!document::is_text(word.key + word.value))
      fail(ExitCode::usage, word.origin, " ", in_quotes(word.value),
           ": is not text in UTF-8 without control characters, which a configuration must be");
    merge.add_override(word);
  }

  if (sources.files.size() == 1 && merge.find("optimizer.type") == nullptr)
    if (const auto other = other_half(sources.files.front()); !other.empty())
      fail(ExitCode::usage, where, "no optimizer is given; ", in_quotes(other.native()),
           " has it: add --deepspeed_config ", other.string());
  return validate(merge, where, warnings);
}

Config load_config_text(const std::string& text, const std::string& name) {
  Merge merge;
  merge.add_file(document::parse_yaml(text, std::make_shared<document::Origin>(document::Origin{name})));
  std::vector<std::string> warnings;  // said when the run began
  return validate(merge, name + ": ", &warnings);
}

}  // namespace ct
