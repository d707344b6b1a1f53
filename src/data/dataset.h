// A data set: labelled images of one shape, numbered from 0. Each kind has its own folder (data/cifar, data/synthetic)
// and a row in data/kinds.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/choice.h"
#include "base/error.h"
#include "data/augmentation.h"

namespace ct {

/// `val` is of sets that have images for the choice of weights apart from the test images (DataKind::has).
enum class Split { train, test, val };
enum class OnCorrupt : uint8_t { error, skip };  // the reaction to a damaged image
constexpr auto words_of(OnCorrupt) { return std::to_array<std::string_view>({"error", "skip"}); }
/// Which labels of a set that has two kinds, such as CIFAR-100, are its classes.
enum class Labels : uint8_t { fine, coarse };
constexpr auto words_of(Labels) { return std::to_array<std::string_view>({"fine", "coarse"}); }
/// The advice in errors about damaged images.
inline constexpr std::string_view kSkipDamaged = "set data.on_corrupt to skip (eval, data convert: --on-corrupt skip)";

/// The shape of a model's sample: u8, planar, row by row.
struct SampleShape {
  int64_t channels = 0, height = 0, width = 0;
  size_t bytes() const { return static_cast<size_t>(channels * height * width); }
  bool operator==(const SampleShape&) const = default;
};
inline std::string to_string(const SampleShape& s) { return str(s.channels, "x", s.height, "x", s.width); }

/// The properties of the data on which a program depends: samples, classes, and number of test images.
struct DataSpec {
  SampleShape sample;
  int classes = 0;
  int64_t test_images = 0;
  bool direct = true;        // DataSet::direct()
  bool cropped = false;      // DataSet::cropped()
  int64_t train_images = 0;  // of the training set, up to the last one that trains
  bool resident = false;     // do these lie in the device's memory? (train/memory/resident_images.h)
};

constexpr int kMostClasses = 1 << 16;  // a label has 16 bits

/// One split of a data set. A fault of its files is Error(data), one line with the file and the remedy.
class DataSet {
 public:
  virtual ~DataSet() = default;

  const std::string& name() const { return name_; }  // of the kind: "CIFAR-10"
  int64_t count() const { return static_cast<int64_t>(labels_.size()); }
  int label(int64_t i) const { return labels_[static_cast<size_t>(i)]; }
  int classes() const { return static_cast<int>(class_names_.size()); }
  const std::vector<std::string>& class_names() const { return class_names_; }
  const SampleShape& shape() const { return shape_; }
  int64_t skipped() const { return skipped_; }  // left out by OnCorrupt::skip
  /// Messages for the user that are not errors, one line each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// A checksum of the content, which checkpoints record and a resumed run compares.
  virtual uint32_t fingerprint() const = 0;

  /// Writes shape().bytes() of sample i. May be called by several threads at once. Returns false if the image is
  /// damaged and OnCorrupt::skip is set; the written bytes are then invalid.
  virtual bool read(int64_t i, const SampleKey& key, uint8_t* to) const = 0;
  /// Is read() only a copy from memory? Then it is called in line, because a worker would cost more.
  virtual bool direct() const { return false; }
  /// Does read() apply the random_resized_crop of data.augment, so that the device must not?
  virtual bool cropped() const { return false; }
  /// Announces the samples that are read next and those after them, so that memory or disk can be prefetched. Sets that
  /// are not direct get each sample once as `next`, from the thread that takes samples, so the call must not block.
  virtual void prefetch(std::span<const uint32_t> next, std::span<const uint32_t> after_next) const {
    (void)next, (void)after_next;
  }

  /// Throws Error(data) with the file if samples depend on a file that was overwritten or truncated since the set was
  /// opened. Must be called before results of samples are used. Replaced or removed files do not matter.
  virtual void check_unchanged() const {}
  /// Throws like check_unchanged() if a read has already met a truncated file; nearly free.
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
