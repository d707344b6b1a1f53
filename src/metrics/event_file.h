// TensorBoard's event files (events.out.tfevents.*): records of the messages Event and Summary of TensorFlow's .proto
// files, written field by field and read as far as going back to a checkpoint needs it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ct {

/// What is shown under a tag: an encoded Summary.Value.
using SummaryValue = std::string;

SummaryValue scalar_summary(std::string_view tag, double value);
/// `values` are finite.
SummaryValue histogram_summary(std::string_view tag, std::span<const float> values);
/// Pixels [height][width][channels], grey (1 channel) or RGB (3).
SummaryValue image_summary(std::string_view tag, std::span<const uint8_t> pixels, int64_t width, int64_t channels);
SummaryValue text_summary(std::string_view tag, std::string_view markdown);

class EventFile {
 public:
  /// Is what was shown at `x` still true? `tag`: the first of those that were shown together.
  using Keep = std::function<bool(std::string_view tag, int64_t x)>;

  /// Begins a file in `folder`, which is made if need be. It starts with SessionLog START at `x`: TensorBoard forgets
  /// whatever it has read at x and beyond, under any tag. So that it shows all that is true, once, the earlier files of
  /// this `writer` lose what `keep` refuses, and what they have at x and beyond moves into this file.
  EventFile(FileSystem& files, const Path& folder, std::string_view writer, int64_t x, const Keep& keep);
  /// Shows some values at `x`.
  void write(int64_t x, const std::vector<SummaryValue>& values);

 private:
  File file_;
};

/// Who wrote the event file at `path`, as EventFile was told; empty: someone else, or it is no such file.
std::string writer_of_events(const Path& path);

}  // namespace ct
