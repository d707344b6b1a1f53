// A data set in memory, of any shape and number of classes, that is read like one whose images must be decoded.
#pragma once

#include <functional>

#include "base/random.h"
#include "data/kinds.h"

namespace ct {

class MadeUpSet : public DataSet {
 public:
  /// `reading` is called before a sample is read, by whatever thread reads it: to sleep or to throw.
  MadeUpSet(SampleShape shape, int classes, int64_t count, std::function<void(int64_t i)> reading = {})
      : DataSet("made-up", shape), reading_(std::move(reading)) {
    for (int c = 0; c < classes; ++c) class_names_.push_back(str("class-", c));
    for (int64_t i = 0; i < count; ++i) labels_.push_back(static_cast<uint16_t>(i % classes));
  }
  uint32_t fingerprint() const override { return static_cast<uint32_t>(count()); }
  /// Noise over a level that tells the class.
  bool read(int64_t i, const SampleKey& key, uint8_t* to) const override {
    if (reading_) reading_(i);
    Random random(static_cast<uint64_t>(label(i)), Purpose::synthetic,
                  static_cast<uint64_t>(i + 1000 * (key.epoch + 1)));
    for (size_t j = 0; j < shape().bytes(); ++j)
      to[j] = static_cast<uint8_t>(label(i) * 200 / classes() + static_cast<int>(random.next_u32() % 50));
    return true;
  }

 private:
  std::function<void(int64_t)> reading_;
};

/// In place of the synthetic set, so that configurations are valid.
inline DataKind made_up_kind(std::unique_ptr<DataSet> (*open)(const DataSource&, Split, const OpenOptions&)) {
  return {.key = "synthetic",
          .name = "made-up",
          .locate = [](const std::filesystem::path&,
                       const LocateOptions&) { return std::optional(DataSource{.note = "data: made-up"}); },
          .open = open};
}

}  // namespace ct
