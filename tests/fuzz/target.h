// A fuzz target gives the bytes of an input to one reader of the program. It is run by libFuzzer (libfuzzer.cpp,
// tools/fuzz.sh) and, on the inputs that are kept in cases/, by the ordinary tests (cases_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ct::fuzz {

using Input = std::span<const std::byte>;

inline std::string_view text_of(Input input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

struct Target {
  const char* name;
  std::vector<ExitCode> refusals;  // of an input that the reader does not accept; none: any failure, of another process
  void (*read)(Input input);
  uint64_t memory = uint64_t{64} << 20;  // bytes that reading may take beyond the input's own
};

/// All targets of this program. A file of a target defines one `const Registered`.
std::vector<Target>& targets();
struct Registered {
  explicit Registered(const Target& target) { targets().push_back(target); }
};

/// Reads one input. What is wrong, empty: nothing. A reader returns, or throws an Error with one of these codes and a
/// short message; it takes no more memory than the target allows (measured with AddressSanitizer), and no more time
/// than 1 s per 100 KB. Any other exception is passed on.
std::string problem_with(const Target& target, Input input);

}  // namespace ct::fuzz
