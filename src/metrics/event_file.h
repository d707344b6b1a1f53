// TensorBoard's event files (events.out.tfevents.*): records of the messages Event and Summary of TensorFlow's .proto
// files, written by base/protobuf_writer.h; reading supports only what a resume needs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ct {

/// A value under a tag: an encoded Summary.Value.
using SummaryValue = std::string;

SummaryValue scalar_summary(std::string_view tag, double value);
/// `values` must be finite.
SummaryValue histogram_summary(std::string_view tag, std::span<const float> values);
/// Pixels [height][width][channels], grey (1 channel) or RGB (3).
SummaryValue image_summary(std::string_view tag, std::span<const uint8_t> pixels, int64_t width, int64_t channels);
SummaryValue text_summary(std::string_view tag, std::string_view markdown);

class EventFile {
 public:
  /// Is an event at `x` still valid? `tag`: the first tag of the event.
  using Keep = std::function<bool(std::string_view tag, int64_t x)>;

  /// Begins a file in `folder`, which is created if necessary. The file starts with SessionLog START at `x`, after
  /// which TensorBoard discards events of every tag at x and later. So that all valid events are shown once, events
  /// that `keep` rejects are deleted from the earlier files of this `writer`, and their valid events at x and later are
  /// moved into this file.
  EventFile(FileSystem& files, const Path& folder, std::string_view writer, int64_t x, const Keep& keep);
  /// Writes an event with these values at `x`.
  void write(int64_t x, const std::vector<SummaryValue>& values);
  /// Returns once all events are on the disk.
  void sync() { file_.sync(); }

 private:
  File file_;
};

/// The `writer` of the event file at `path`; empty: it has another writer, or is not an event file.
std::string writer_of_events(const Path& path);

}  // namespace ct
