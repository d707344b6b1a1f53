// Batches for training and evaluation, from a data set into the caller's buffers.
//
// A pipeline is a function of (seed, epoch, step, micro-batch): calls may come in any order, and each rank has its own
// pipeline. The expected next micro-batches are prepared: images of a direct set are copied in line and prefetched one
// micro-batch earlier, because a shuffled set of 150 MB does not fit into the caches; a Loader reads those of other
// sets ahead.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "engine/inputs.h"

namespace ct {

struct PipelineOptions {
  uint64_t seed = 0;
  bool shuffle = true;
  bool same_order = false;  // every epoch has the order of the first one
  Sampler sampler = Sampler::uniform;
  std::vector<AugmentStep> augment = {};
  std::vector<float> class_weights = {};  // in the loss, by class; empty: classes count alike
  int64_t train_batch = 0;                // images of one step, over all ranks and micro-batches
  int64_t micro_batch = 0;                // divides train_batch
  // The micro-batches of each step that this rank is expected to request: first, first + stride, ... (micros 0: to the
  // end of the step). A wrong value costs only time.
  int64_t first_micro = 0, micros = 0, micro_stride = 1;
  int workers = 1;                     // for a set that is not direct
  std::function<void()> arrived = {};  // see LoaderOptions
};

class Pipeline {
 public:
  /// Trains on `images` of the set (Parts::training). The set must outlive the pipeline. Error(usage) if they do not
  /// fill one step.
  Pipeline(const DataSet& set, std::vector<uint32_t> images, PipelineOptions options);

  int64_t images() const { return static_cast<int64_t>(images_.size()); }
  const SampleShape& sample() const { return set_.shape(); }
  /// Whole batches only: the remaining images at the end of an epoch's order are not used in that epoch.
  int64_t steps_per_epoch() const { return images() / options_.train_batch; }
  int64_t micros_per_step() const { return options_.train_batch / options_.micro_batch; }
  /// Threads that read ahead; 0 for a direct set.
  int workers() const { return loader_ ? options_.workers : 0; }
  /// The number of damaged images replaced so far.
  int64_t replaced() const { return replaced_; }
  /// What was read so far of a class.
  struct ClassRead {
    int64_t sound = 0;           // images
    int64_t first_damaged = -1;  // the lowest number of an image; -1: none is damaged
  };
  const std::vector<ClassRead>& read_of_classes() const { return read_; }

  /// The first samples of the first step, at most `most`, as read from the set: u8 [N][C][H][W], before augmentation on
  /// the device. Reads them in line, without counting replacements.
  std::vector<uint8_t> first_samples(int64_t most) const;

  /// Writes micro-batch k (global) of a step, and its dropout key if `to` has one. In place of the images it writes
  /// their numbers in the set if `to` has an index; the set must then be direct().
  void fill(int64_t epoch, int64_t step, int64_t k, const Inputs& to);

 private:
  struct Order {
    int64_t epoch = -1;
    std::vector<uint32_t> images;   // of the set
    std::vector<uint32_t> repeats;  // SampleKey::repeat of each; empty: 0
  };
  Order make_order(int64_t epoch) const;
  const Order& order(int64_t epoch);
  SampleList chosen(int64_t epoch, int64_t step, int64_t k);
  void note_read(int64_t wanted, int64_t written);
  /// The samples of one of this rank's micro-batches, numbered through all epochs.
  SampleList planned(int64_t number);
  /// The expected images of this rank's n-th next micro-batch; empty after the end of the epoch.
  std::span<const uint32_t> upcoming(int64_t epoch, int64_t step, int64_t k, int64_t n);

  const DataSet& set_;
  std::vector<uint32_t> images_;
  std::vector<std::vector<uint32_t>> by_class_;  // the same, for Sampler::balanced
  PipelineOptions options_;
  Augmentation augmentation_;
  std::array<Order, 2> orders_;   // a loader reaches later epochs before this one ends
  std::vector<int64_t> written_;  // results of read_sample() for the current micro-batch
  int64_t replaced_ = 0;
  std::vector<ClassRead> read_;
  std::unique_ptr<Loader> loader_;
};

/// Yields every image of a list once, in order, `batch` at a time.
class EvalPipeline {
 public:
  EvalPipeline(const DataSet& set, int64_t batch, int workers = 1);  // the whole set, in file order
  EvalPipeline(const DataSet& set, std::vector<uint32_t> images, int64_t batch, int workers = 1);

  const DataSet& set() const { return set_; }
  int64_t images() const { return static_cast<int64_t>(images_.size()); }
  int64_t batches() const { return (images() + batch_ - 1) / batch_; }
  /// The number in the set of the image at a place of the list.
  uint32_t image_at(int64_t place) const { return images_[static_cast<size_t>(place)]; }

  /// A loader for a caller that requests batches first, first + stride, ...; null: the set is direct.
  std::unique_ptr<Loader> read_ahead(int64_t stride, std::function<void()> arrived) const;

  /// Writes batch b of `batch` images. Returns the labels of its images, fewer in the last batch; kNoLabel for a
  /// damaged image (kLeftOut). In `to`, damaged images and places without an image are black images of class 0, which
  /// must not be counted. All draws are zero.
  static constexpr int32_t kNoLabel = -1;
  std::vector<int32_t> fill(int64_t b, const Inputs& to, Loader* ahead = nullptr) const;

 private:
  std::span<const uint32_t> chosen(int64_t b) const;

  const DataSet& set_;
  std::vector<uint32_t> images_;
  int64_t batch_;
  int workers_;
};

}  // namespace ct
