#include "metrics/log_format.h"

#include <cstdio>

namespace ct {
namespace {

template <class... Args>
std::string format_text(const char* pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

/// As the format prints a share in percent; of no images it is 0.
std::string percent(LogFormat format, int64_t correct, int64_t images, const char* rounded, const char* truncated) {
  if (format == LogFormat::example)
    return format_text(rounded, images > 0 ? 100 * static_cast<double>(correct) / static_cast<double>(images) : 0.0);
  return format_text(truncated, images > 0 ? 100 * correct / images : 0);
}

}  // namespace

std::string loss_line(LogFormat format, const LossLine& line) {
  switch (format) {
    case LogFormat::ema_loss:
      return format_text(">>> epoch: %5ld, step: %7ld, loss: %2.4f", line.epoch, line.step, line.ema);
    case LogFormat::example:
      return format_text("[% ld, % 5ld] loss: % .3f", line.epoch + 1, line.micro_batches, line.mean);
    case LogFormat::tutorial:
      break;
  }
  return format_text("[%ld, %5ld] loss: %.3f", line.epoch + 1, line.micro_batches, line.mean);
}

std::string accuracy_line(int64_t correct, int64_t images, std::string_view split, LogFormat format) {
  return format_text("Accuracy of the network on the %ld %.*s images: ", images, static_cast<int>(split.size()),
                     split.data()) +
         percent(format, correct, images, "% .0f", "%ld") + " %";
}

std::string class_accuracy_line(std::string_view name, int64_t correct, int64_t images, LogFormat format) {
  const std::string begin = format_text("Accuracy of %5.*s : ", static_cast<int>(name.size()), name.data());
  if (images == 0) return begin + "no images";
  return begin + percent(format, correct, images, "% 2.0f", "%2ld") + " %";
}

}  // namespace ct
