#include "metrics/deepspeed_lines.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/error.h"

namespace ct {
namespace {

/// "[a, b]"
template <class Items, class Text>
std::string list(const Items& items, Text text) {
  std::string joined;
  for (const auto& item : items) joined += (joined.empty() ? "" : ", ") + text(item);
  return "[" + joined + "]";
}

std::string text_of(const GroupMomentum& momentum, Pairs pairs) {
  if (!momentum.second) return momentum.first == 0 && pairs == Pairs::tuples ? "0" : python_number(momentum.first);
  const std::string both = python_number(momentum.first) + ", " + python_number(*momentum.second);
  return pairs == Pairs::tuples ? "(" + both + ")" : "[" + both + "]";
}

/// round(bytes / 1024**3, 2)
std::string gigabytes(int64_t bytes) {
  return python_number(std::round(static_cast<double>(bytes) / (1 << 30) * 100) / 100);
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

std::string step_line(int64_t step, int64_t skipped, std::span<const double> lr, std::span<const GroupMomentum> momenta,
                      Pairs pairs) {
  return str("step=", step, ", skipped=", skipped, ", lr=", list(lr, python_number),
             ", mom=", list(momenta, [&](const GroupMomentum& m) { return text_of(m, pairs); }));
}

std::string throughput_line(const Throughput& throughput) {
  return str("epoch=0/micro_step=", throughput.micro_steps, "/global_step=", throughput.steps,
             ", RunningAvgSamplesPerSec=", python_number(throughput.running),
             ", CurrSamplesPerSec=", python_number(throughput.current), ", MemAllocated=", gigabytes(throughput.bytes),
             "GB, MaxMemAllocated=", gigabytes(throughput.most_bytes), "GB");
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

std::string log_line(std::string_view where, std::string_view text, std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(now));
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char day[32], rest[8];
  std::strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &local);
  std::snprintf(rest, sizeof rest, "%03d", static_cast<int>(milliseconds));
  return str("[", day, ",", rest, "] [INFO] [", where, "] ", text);
}

std::string log_dist_line(std::string_view text, std::chrono::system_clock::time_point now) {
  return log_line("logging.py:128:log_dist", str("[Rank 0] ", text), now);
}

}  // namespace ct
