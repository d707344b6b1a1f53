#include "train/config/suggest.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "train/config/foreign.h"

namespace ct {
namespace {

/// Letters left out, put in, replaced, or two neighbours in the wrong order (Damerau and Levenshtein).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, last, row(b.size() + 1);  // of a's first i-2, i-1 and i letters, to each start of b
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// How far a typing error may lie from the word that was meant.
size_t tolerance(const std::string& word) { return std::max<size_t>(1, word.size() / 3); }

/// What others call a key of ours, where the spelling does not show it: by its last part, or by the whole of it.
constexpr std::pair<std::string_view, std::string_view> kOthersNames[] = {
    {"learning_rate", "optimizer.params.lr"},
    {"max_grad_norm", "gradient_clipping"},
    {"clip_grad_norm", "gradient_clipping"},
    {"accumulate_grad_batches", "gradient_accumulation_steps"},
    {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
    {"global_batch_size", "train_batch_size"},
    {"num_workers", "data.workers"},
    {"data_dir", "data.path"},
    {"output_dir", "output"},
    {"data.root", "data.path"},
    {"model.type", "model.name"},
    {"optimizer.name", "optimizer.type"},
    {"scheduler.name", "scheduler.type"},
    {"zero_stage", "zero_optimization.stage"},
    {"warmup_epochs", "scheduler.params.warmup_num_steps"},
    {"logging_steps", "train.log_interval"},
    {"save_steps", "train.save_interval"},
    {"eval_steps", "train.eval_interval"},
    {"use_ema", "train.ema.enabled"},
    {"img_size", "data.size"},
    {"image_size", "data.size"},
    {"precision", "bf16.enabled"},
    {"num_gpus", "--ranks"},
    {"mixed_precision", "bf16.enabled"},
};

/// What is left where writing differs: no capitals, no underscores and no dots.
std::string letters(std::string_view name) {
  std::string left = lower_case(std::string(name));
  std::erase_if(left, [](char c) { return c == '_' || c == '.'; });
  return left;
}

std::vector<std::string> words_of_name(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream parts(lower_case(name));
  for (std::string word; std::getline(parts, word, '_');) words.push_back(word);
  return words;
}

/// "grad" is short for "gradient".
bool is_short_for(const std::string& word, const std::string& whole) {
  constexpr size_t kShortest = 4;
  return word == whole || (word.size() >= kShortest && whole.starts_with(word));
}

/// How many words `longer` has more than `name`, whose words, or what they are short for, are all in it; SIZE_MAX where
/// they are not, or where name is a single word, which says too little.
size_t missing_words(const std::string& name, const std::string& longer) {
  const std::vector<std::string> some = words_of_name(name);
  std::vector<std::string> left = words_of_name(longer);
  if (some.size() < 2) return SIZE_MAX;
  for (const std::string& word : some) {
    const auto whole = std::ranges::find_if(left, [&](const std::string& other) { return is_short_for(word, other); });
    if (whole == left.end()) return SIZE_MAX;
    left.erase(whole);
  }
  return left.size();
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& choices) {
  std::string best;
  size_t best_distance = tolerance(word) + 1;
  for (const std::string& choice : choices) {
    const size_t distance = edit_distance(lower_case(word), lower_case(choice));
    if (distance < best_distance) best = choice, best_distance = distance;
  }
  return best;
}

namespace {

struct KeyPath {
  std::string block, name;
};
KeyPath split_key(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? KeyPath{"", key} : KeyPath{key.substr(0, dot), key.substr(dot + 1)};
}

/// Every key there is, and every block.
std::vector<std::string> known_keys(const std::vector<ConfigField>& fields) {
  std::vector<std::string> keys;
  const auto add_with_blocks = [&](std::string key) {
    for (; !key.empty(); key = split_key(key).block)
      if (split_key(key).name != "*") keys.push_back(key);
  };
  for (const ConfigField& field : fields) add_with_blocks(field.key);
  for (const InertKey& inert : inert_keys()) add_with_blocks(inert.key);
  return keys;
}

/// The key that is written otherwise: Train_Batch_Size, data_path.
std::string same_letters_as(const std::string& key, const std::vector<std::string>& known) {
  const auto found =
      std::ranges::find(known, letters(key), [](const std::string& candidate) { return letters(candidate); });
  return found == known.end() ? "" : *found;
}

std::string others_name(const std::string& key, const KeyPath& path) {
  for (const auto& [theirs, ours] : kOthersNames)
    if (letters(theirs) == letters(key) || letters(theirs) == letters(path.name)) return std::string(ours);
  return "";
}

/// The key of this name in another block, the likest.
std::string of_other_block(const KeyPath& key, const std::vector<std::string>& known) {
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string& candidate : known) {
    const auto [block, name] = split_key(candidate);
    if (letters(name) != letters(key.name)) continue;
    const size_t distance = edit_distance(lower_case(key.block), lower_case(block));
    if (distance < least) best = candidate, least = distance;
  }
  return best;
}

std::string of_same_name(const KeyPath& key, const std::vector<std::string>& known) {
  const std::string meant = same_letters_as(key.block + key.name, known);
  return meant.empty() ? of_other_block(key, known) : meant;
}

/// num_epochs and max_epochs are epochs.
KeyPath without_count(const KeyPath& key) {
  for (const std::string prefix : {"num_", "max_", "n_"})
    if (lower_case(key.name).starts_with(prefix)) return {key.block, key.name.substr(prefix.size())};
  return {};
}

/// The key of which this one has the words, or most of them: of this block, then of none, then of another.
std::string abbreviated(const KeyPath& key, const std::vector<std::string>& known) {
  std::string best;
  std::pair<size_t, size_t> least{SIZE_MAX, SIZE_MAX};
  for (const std::string& candidate : known) {
    const auto [block, name] = split_key(candidate);
    const size_t missing = missing_words(key.name, name);
    if (missing == SIZE_MAX) continue;
    const size_t elsewhere = block == key.block ? 0 : block.empty() ? 1 : 1 + edit_distance(key.block, block);
    const std::pair distance{elsewhere, missing};
    if (distance < least) best = candidate, least = distance;
  }
  return best;
}

/// The key that typing errors made this one of.
std::string mistyped(const KeyPath& key, const std::vector<std::string>& known) {
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string& candidate : known) {
    const size_t names = edit_distance(lower_case(key.name), lower_case(split_key(candidate).name));
    const size_t blocks = edit_distance(lower_case(key.block), lower_case(split_key(candidate).block));
    if (names > tolerance(key.name) || blocks > tolerance(key.block)) continue;
    if (names + blocks < least) best = candidate, least = names + blocks;
  }
  return best;
}

/// "a.b" as a file writes it: "a: {b: ...}"
std::string in_blocks(const std::string& key) {
  std::string text, ends;
  for (const char c : key) {
    text += c == '.' ? ": {" : std::string(1, c);
    if (c == '.') ends += '}';
  }
  return text + ": ..." + ends;
}

}  // namespace

std::string suggest_key(const std::string& key, const std::vector<ConfigField>& fields) {
  const KeyPath path = split_key(key);
  const std::vector<std::string> known = known_keys(fields);
  if (std::ranges::find(known, key) != known.end()) return "; write it in its block, " + in_blocks(key);
  std::string meant = others_name(key, path);
  if (meant.empty()) meant = of_same_name(path, known);
  if (meant.empty()) meant = of_same_name(without_count(path), known);
  if (meant.empty()) meant = abbreviated(path, known);
  if (meant.empty()) meant = mistyped(path, known);
  return meant.empty() ? "" : "; did you mean '" + meant + "'?";
}

}  // namespace ct
