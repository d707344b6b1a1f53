// The format of a run's lines of losses and accuracies: the tutorial's, that of DeepSpeed's example, or that of scripts
// with a moving average.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/choice.h"

namespace ct {

/// train.log_format.
enum class LogFormat : uint8_t { tutorial, example, ema_loss };
constexpr auto words_of(LogFormat) { return std::to_array<std::string_view>({"tutorial", "example", "ema_loss"}); }

/// The numbers of a loss line.
struct LossLine {
  int64_t epoch = 0;          // from 0
  int64_t micro_batches = 0;  // of this epoch, of all ranks
  int64_t step = 0;           // optimizer steps of the run
  double mean = 0;            // over the images since the last line of this epoch
  double ema = 0;             // next_ema_loss()
};
/// tutorial: "[1,  2000] loss: 2.258"; example: "[ 1,  2000] loss:  2.258"; ema_loss: ">>> epoch:     0, step:    1000,
/// loss: 2.3026", on one line.
std::string loss_line(LogFormat format, const LossLine& line);

/// A share as "85.46 %": rounded, as everywhere but in the formats of these lines of accuracies.
std::string percent(double share, int decimals = 2);

/// A class's name, padded to at least five bytes, as the tutorial's "%5s" pads it; fmt would count characters instead.
std::string padded_name(std::string_view name);

/// The moving average of the steps' losses for `ema_loss`. It begins each epoch at 0 without bias correction, so the
/// first lines of an epoch are low.
inline double next_ema_loss(double ema, double loss) { return 0.9 * ema + 0.1 * loss; }

/// "Accuracy of the network on the 10000 test images: 55 %", truncated as in the tutorial; example: rounded, after two
/// blanks.
std::string accuracy_line(int64_t correct, int64_t images, std::string_view split,
                          LogFormat format = LogFormat::tutorial);
/// "Accuracy of plane : 75 %", with the same formats.
std::string class_accuracy_line(std::string_view name, int64_t correct, int64_t images,
                                LogFormat format = LogFormat::tutorial);

}  // namespace ct
