#include "train/config/suggest.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/lower_case.h"
#include "train/config/inert_keys.h"

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

/// What others call a key of ours, where no likeness tells.
constexpr std::pair<std::string_view, std::string_view> kOthersNames[] = {
    {"learning_rate", "optimizer.params.lr"},
    {"max_grad_norm", "gradient_clipping"},
    {"clip_grad_norm", "gradient_clipping"},
    {"grad_clip", "gradient_clipping"},
    {"num_train_epochs", "train.epochs"},
    {"num_workers", "data.workers"},
    {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
};

std::vector<std::string> words_of_name(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream parts(lower_case(name));
  for (std::string word; std::getline(parts, word, '_');) words.push_back(word);
  return words;
}

/// How many words `longer` has more than `name`, whose words are all in it and in their order; 0 where they are not, or
/// where name is a single word, which says too little.
size_t missing_words(const std::string& name, const std::string& longer) {
  const std::vector<std::string> some = words_of_name(name), all = words_of_name(longer);
  size_t met = 0;
  for (const std::string& word : all) met += met < some.size() && word == some[met];
  return some.size() < 2 || met < some.size() ? 0 : all.size() - some.size();
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

/// The key of which this one has some words, in the nearest block, and the most of them.
std::string abbreviated(const KeyPath& key, const std::vector<std::string>& known) {
  std::string best;
  std::pair least{SIZE_MAX, SIZE_MAX};
  for (const std::string& candidate : known) {
    const auto [block, name] = split_key(candidate);
    const size_t missing = missing_words(key.name, name);
    if (missing == 0) continue;
    const std::pair distance{edit_distance(key.block, block), missing};
    if (distance < least) best = candidate, least = distance;
  }
  return best;
}

/// The key that typing errors made this one of.
std::string mistyped(const KeyPath& key, const std::vector<std::string>& known) {
  std::string best;
  // Twice the distance, so that the very same name in a block of quite another name comes after every near one.
  size_t best_distance = 2 * tolerance(key.name) + 2;
  for (const std::string& candidate : known) {
    const auto [block, name] = split_key(candidate);
    const size_t names = edit_distance(lower_case(key.name), lower_case(name));
    const size_t blocks = edit_distance(lower_case(key.block), lower_case(block));
    const bool near_block = blocks <= tolerance(key.block);
    if (names > tolerance(key.name) || (!near_block && names > 0)) continue;
    const size_t distance = near_block ? 2 * (names + blocks) : 2 * tolerance(key.name) + 1;
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

}  // namespace

std::string suggest_key(const std::string& key, const std::vector<ConfigField>& fields) {
  const KeyPath path = split_key(key);
  const std::vector<std::string> known = known_keys(fields);
  const auto* const other = std::ranges::find(kOthersNames, path.name, [](const auto& names) { return names.first; });
  std::string meant(other == std::end(kOthersNames) ? "" : other->second);
  if (meant.empty()) meant = abbreviated(path, known);
  if (meant.empty()) meant = mistyped(path, known);
  return meant.empty() ? "" : "; did you mean '" + meant + "'?";
}

}  // namespace ct
