// Enums that a configuration reads and prints as words. For each enum, a function next to it returns the words in the
// order of the values, which count from 0:
//   constexpr auto words_of(OnCorrupt) { return std::to_array<std::string_view>({"error", "skip"}); }
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

template <class E>
concept Worded = requires {
  words_of(E{}).size();
};

template <Worded E>
constexpr std::string_view word_of(E value) {
  return words_of(value)[static_cast<size_t>(value)];
}

/// The value with this word, or `otherwise`.
template <Worded E>
constexpr E of_word(std::string_view word, E otherwise) {
  constexpr auto words = words_of(E{});
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == word) return static_cast<E>(i);
  return otherwise;
}

/// A pointer to a value of any such enum, for tables of keys. The value must outlive it.
class Choice {
 public:
  template <Worded E>
  Choice(E* target)
      : word_([target] { return word_of(*target); }),
        choose_([target](const std::string& word) { *target = of_word(word, *target); }) {
    for (const std::string_view word : words_of(E{})) words_.emplace_back(word);
  }

  const std::vector<std::string>& words() const { return words_; }
  std::string word() const { return std::string(word_()); }
  /// Sets the value to that of `word`, which is one of words().
  void choose(const std::string& word) const { choose_(word); }

 private:
  std::vector<std::string> words_;
  std::function<std::string_view()> word_;
  std::function<void(const std::string&)> choose_;
};

}  // namespace ct
