#include "train/config/suggest.h"

#include <algorithm>
#include <numeric>
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

std::string suggest_key(const std::string& key, const std::vector<ConfigField>& fields) {
  const auto split = [](const std::string& path) {
    const size_t dot = path.rfind('.');
    return dot == std::string::npos ? std::pair{std::string(), path}
                                    : std::pair{path.substr(0, dot), path.substr(dot + 1)};
  };
  const auto [block, name] = split(key);
  std::string best;
  // Twice the distance, so that the very same name in a block of quite another name comes after every near one.
  size_t best_distance = 2 * tolerance(name) + 2;
  const auto consider = [&](const std::string& candidate) {
    const auto [candidate_block, candidate_name] = split(candidate);
    if (candidate_name == "*") return;
    const size_t names = edit_distance(lower_case(name), lower_case(candidate_name));
    const size_t blocks = edit_distance(lower_case(block), lower_case(candidate_block));
    if (names > tolerance(name) || (blocks > tolerance(block) && names > 0)) return;
    const size_t distance = blocks <= tolerance(block) ? 2 * (names + blocks) : 2 * tolerance(name) + 1;
    if (distance < best_distance) best = candidate, best_distance = distance;
  };
  const auto consider_with_blocks = [&](std::string candidate) {
    for (;; candidate = split(candidate).first) {
      consider(candidate);
      if (candidate.find('.') == std::string::npos) return;
    }
  };
  for (const ConfigField& field : fields) consider_with_blocks(field.key);
  for (const InertKey& inert : inert_keys()) consider_with_blocks(inert.key);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

}  // namespace ct
