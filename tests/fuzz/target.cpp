#include "target.h"

#include <algorithm>
#include <atomic>
#include <ctime>

// Of AddressSanitizer's runtime; null without it.
extern "C" {
using MallocHook = void (*)(const volatile void*, size_t);
using FreeHook = void (*)(const volatile void*);
[[gnu::weak]] int __sanitizer_install_malloc_and_free_hooks(MallocHook, FreeHook);
[[gnu::weak]] size_t __sanitizer_get_allocated_size(const volatile void*);
}

namespace ct::fuzz {
namespace {

std::atomic<int64_t> allocated = 0, most_allocated = 0;

void count(const volatile void*, size_t bytes) {
  const int64_t now = allocated += static_cast<int64_t>(bytes);
  for (int64_t most = most_allocated; now > most && !most_allocated.compare_exchange_weak(most, now);) continue;
}
void uncount(const volatile void* block) {
  if (block != nullptr) allocated -= static_cast<int64_t>(__sanitizer_get_allocated_size(block));
}

bool is_instrumented() { return __sanitizer_install_malloc_and_free_hooks != nullptr; }

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// How the reader refuses the input in a way that it should not; empty: it does not.
std::string wrong_refusal(const Target& target, Input input) {
  try {
    target.read(input);
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool fails = error.code() > ExitCode::done && static_cast<int>(error.code()) <= 255;
    if (target.refusals.empty() ? !fails : std::ranges::count(target.refusals, error.code()) == 0)
      return str("exit code ", static_cast<int>(error.code()), ": ", text);
    constexpr size_t kLongest = 4096;  // of a line that somebody is to read
    if (text.size() > kLongest) return str("a message of ", text.size(), " bytes: ", text);
  }
  return "";
}

}  // namespace

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

std::string problem_with(const Target& target, Input input) {
  static const bool counts = is_instrumented() && __sanitizer_install_malloc_and_free_hooks(count, uncount) != 0;
  const double most = std::max(1.0, static_cast<double>(input.size()) / 1e5) * (is_instrumented() ? 8 : 1);
  const int64_t before = allocated;
  most_allocated = before;
  double seconds = 0;
  for (int times = 0; times < 2; ++times) {  // a machine that others use counts some of their time, once
    const double began = processor_seconds();
    if (std::string wrong = wrong_refusal(target, input); !wrong.empty()) return wrong;
    seconds = processor_seconds() - began;
    if (seconds <= most) break;
  }
  if (seconds > most) return str(seconds, " s of processor time");
  const int64_t taken = most_allocated - before;
  if (counts && static_cast<uint64_t>(taken) > input.size() + target.memory)
    return str(taken, " bytes of memory for an input of ", input.size());
  return "";
}

}  // namespace ct::fuzz
