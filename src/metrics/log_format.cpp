#include "metrics/log_format.h"

#include <fmt/format.h>

namespace ct {
namespace {

/// As the format prints a share in percent, at least so wide; of no images it is 0.
std::string percent_of(LogFormat format, int64_t correct, int64_t images, int width) {
  if (format == LogFormat::example)
    return fmt::format("{: {}.0f}", images > 0 ? 100 * static_cast<double>(correct) / static_cast<double>(images) : 0.0,
                       width);
  return fmt::format("{:{}}", images > 0 ? 100 * correct / images : 0, width);
}

}  // namespace

std::string loss_line(LogFormat format, const LossLine& line) {
  switch (format) {
    case LogFormat::ema_loss:
      return fmt::format(">>> epoch: {:5}, step: {:7}, loss: {:2.4f}", line.epoch, line.step, line.ema);
    case LogFormat::example:
      return fmt::format("[{: }, {: 5}] loss: {: .3f}", line.epoch + 1, line.micro_batches, line.mean);
    case LogFormat::tutorial:
      break;
  }
  return fmt::format("[{}, {:5}] loss: {:.3f}", line.epoch + 1, line.micro_batches, line.mean);
}

std::string percent(double share, int decimals) { return fmt::format("{:.{}f} %", 100 * share, decimals); }

std::string accuracy_line(int64_t correct, int64_t images, std::string_view split, LogFormat format) {
  return fmt::format("Accuracy of the network on the {} {} images: {} %", images, split,
                     percent_of(format, correct, images, 0));
}

std::string class_accuracy_line(std::string_view name, int64_t correct, int64_t images, LogFormat format) {
  const std::string begin = fmt::format("Accuracy of {} : ", padded_name(name));
  return begin + (images == 0 ? "no images" : percent_of(format, correct, images, 2) + " %");
}

std::string padded_name(std::string_view name) {
  return std::string(name.size() < 5 ? 5 - name.size() : 0, ' ').append(name);
}

}  // namespace ct
