#include "metrics/step_line.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"

namespace ct {
namespace {

/// "[a, b]"
template <class Items, class Text>
std::string list(const Items& items, Text text) {
  return "[" + joined(items, ", ", text) + "]";
}

}  // namespace

std::string python_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[64];
  const auto shortest = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  const std::string scientific(text, shortest.ptr);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return scientific;
  const auto fixed = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed);
  const std::string plain(text, fixed.ptr);
  return plain.find('.') == std::string::npos ? plain + ".0" : plain;
}

std::string momentum_text(const GroupMomentum& momentum) {
  const std::string first = python_number(momentum.first);
  return momentum.second ? "[" + first + ", " + python_number(*momentum.second) + "]" : first;
}

std::string step_line(int64_t step, int64_t skipped, std::span<const double> lr, std::span<const GroupMomentum> momenta,
                      std::string (*text_of)(const GroupMomentum&)) {
  return str("step=", step, ", skipped=", skipped, ", lr=", list(lr, python_number), ", mom=", list(momenta, text_of));
}

std::string timer_line(std::span<const std::pair<std::string_view, double>> times) {
  std::string line = "time (ms)";
  for (const auto& [name, milliseconds] : times) {
    char text[64];
    std::snprintf(text, sizeof text, "%.2f", milliseconds);
    line += str(" | ", name, ": ", text);
  }
  return line;
}

}  // namespace ct
