// A data set: labelled images of one shape, numbered from 0. Each kind has a folder of its own (data/cifar,
// data/synthetic) and a row in data/kinds.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/choice.h"
#include "base/error.h"
#include "data/augmentation.h"

namespace ct {

enum class Split { train, test };
enum class OnCorrupt : uint8_t { error, skip };  // what a damaged image does
constexpr auto words_of(OnCorrupt) { return std::to_array<std::string_view>({"error", "skip"}); }
/// What an error about such an image advises.
inline constexpr std::string_view kSkipDamaged = "set data.on_corrupt to skip (eval, data convert: --on-corrupt skip)";

/// A sample as a model takes it: u8, planar, row by row.
struct SampleShape {
  int64_t channels = 0, height = 0, width = 0;
  size_t bytes() const { return static_cast<size_t>(channels * height * width); }
  bool operator==(const SampleShape&) const = default;
};
inline std::string to_string(const SampleShape& s) { return str(s.channels, "x", s.height, "x", s.width); }

/// What a program is made for: the samples, their classes, and how many there are to test on.
struct DataSpec {
  SampleShape sample;
  int classes = 0;
  int64_t test_images = 0;
  bool direct = true;    // DataSet::direct()
  bool cropped = false;  // DataSet::cropped()
};

constexpr int kMostClasses = 1 << 16;  // a label has 16 bits

/// One split. What is wrong with its files is Error(data), one line that names the file and the remedy.
class DataSet {
 public:
  virtual ~DataSet() = default;

  const std::string& name() const { return name_; }  // its kind's: "CIFAR-10"
  int64_t count() const { return static_cast<int64_t>(labels_.size()); }
  int label(int64_t i) const { return labels_[static_cast<size_t>(i)]; }
  int classes() const { return static_cast<int>(class_names_.size()); }
  const std::vector<std::string>& class_names() const { return class_names_; }
  const SampleShape& shape() const { return shape_; }
  int64_t skipped() const { return skipped_; }  // left out by OnCorrupt::skip
  /// What its user should know of what lies there, though nothing is wrong: a line each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// A checksum of the content, which checkpoints record and a resumed run compares.
  virtual uint32_t fingerprint() const = 0;

  /// Writes shape().bytes() of sample i. Any thread, several at once. False where it is damaged and OnCorrupt::skip
  /// says to go on: what was written is no sample.
  virtual bool read(int64_t i, const SampleKey& key, uint8_t* to) const = 0;
  /// Is read() a copy from memory? Then it is done in line: no worker is worth its cost.
  virtual bool direct() const { return false; }
  /// Does read() do the random_resized_crop of data.augment, so that the device must not?
  virtual bool cropped() const { return false; }
  /// Tells which samples are read next and which after those, to ask for their memory or their disk in advance. Sets
  /// that are not direct hear of all next ones once, from the thread that takes samples: it must not wait.
  virtual void prefetch(std::span<const uint32_t> next, std::span<const uint32_t> after_next) const {
    (void)next, (void)after_next;
  }

  /// Throws Error(data) naming the file that was written or cut since the set was opened, where samples show such
  /// changes: call it before what was made of them counts. Files replaced or removed do no harm.
  virtual void check_unchanged() const {}
  /// Throws like check_unchanged() where a cut file has shown already: it costs next to nothing.
  virtual void check_not_cut() const {}

 protected:
  DataSet(std::string name, SampleShape shape) : name_(std::move(name)), shape_(shape) {}

  std::vector<std::string> class_names_;
  std::vector<uint16_t> labels_;
  int64_t skipped_ = 0;
  std::vector<std::string> notes_;

 private:
  std::string name_;
  SampleShape shape_;
};

}  // namespace ct
