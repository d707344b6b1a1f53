// Every target reads kept cases with random changes, for CIFAR_TRAIN_FUZZ_SECONDS each (0.1). It needs no clang, and
// learns nothing from a run: tools/fuzz.sh finds more. An input that finds a fault is kept as found-TARGET in the
// working folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>

#include "base/checks.h"
#include "base/files.h"
#include "target.h"

extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace ct::fuzz {
namespace {

/// What is being read, where a sanitizer that ends the program finds it.
struct {
  std::string target, input;
} reading;

void keep_input() { spill("found-" + reading.target, reading.input); }

/// Random changes, the same in every run.
class Changes {
 public:
  explicit Changes(const Path& cases) {
    for (const std::string& name : list_folder(cases)) cases_.push_back(read_file(cases / name));
  }

  std::string next() {
    std::string text = any_case();
    for (size_t times = 1 + below(4); times > 0; --times) change(text);
    return text;
  }

 private:
  static constexpr size_t kLongest = size_t{1} << 16;

  size_t below(size_t n) { return random_() % n; }
  const std::string& any_case() { return cases_[below(cases_.size())]; }
  std::string piece_of(const std::string& text) {
    const size_t begin = below(text.size() + 1);
    return text.substr(begin, 1 + below(below(8) == 0 ? kLongest : 16));
  }
  /// In words, or in the bytes of an integer next to a power of two.
  std::string number() {
    static const std::vector<std::string> words = {"0", "-1", "1e999", "nan", "2147483648", "18446744073709551616"};
    if (below(2) == 0) return words[below(words.size())];
    const uint64_t value = (uint64_t{1} << below(64)) - below(2);
    std::string bytes(reinterpret_cast<const char*>(&value), size_t{1} << below(4));
    if (below(2) == 0) std::ranges::reverse(bytes);
    return bytes;
  }
  void change(std::string& text) {
    const size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.replace(at, 1, 1, static_cast<char>(random_()));
        break;
      case 1:
        text.erase(at, 1 + below(below(4) == 0 ? kLongest : 8));
        break;
      case 2:
        text.insert(at, below(2) == 0 ? number() : piece_of(any_case()));
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      default: {
        const std::string other = below(2) == 0 ? number() : piece_of(any_case());
        text.replace(at, other.size(), other);
      }
    }
    text.resize(std::min(text.size(), kLongest));
  }

  std::vector<std::string> cases_;
  std::mt19937_64 random_;
};

TEST(Fuzz, ChangedCasesAreReadOrRefusedWithinTheirBounds) {
  const char* given = std::getenv("CIFAR_TRAIN_FUZZ_SECONDS");
  const std::chrono::duration<double> seconds(given != nullptr ? std::atof(given) : 0.1);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(keep_input);
  std::signal(SIGABRT, [](int) { keep_input(); });  // an assertion
  for (const Target& target : targets()) {
    reading.target = target.name;
    Changes changes(Path(CT_FUZZ_CASES) / target.name);
    std::string problem;
    size_t runs = 0;
    for (const auto end = std::chrono::steady_clock::now() + seconds;
         problem.empty() && std::chrono::steady_clock::now() < end; ++runs) {
      reading.input = changes.next();
      try {
        problem = problem_with(target, std::as_bytes(std::span(reading.input)));
      } catch (const std::exception& e) {
        problem = e.what();
      }
    }
    RecordProperty(target.name, std::to_string(runs));
    EXPECT_EQ(problem, "") << target.name;
    if (!problem.empty()) keep_input();
  }
}

}  // namespace
}  // namespace ct::fuzz
