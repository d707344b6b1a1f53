// Batches for training and evaluation, copied from an image set into the caller's buffers.
//
// A pipeline is a function of (seed, epoch, step, micro-batch): it may be asked in any order and by any number of
// ranks, each with its own. It keeps one epoch's order and asks the memory in advance for the images of the micro-batch
// that should come next, as a shuffled set of 150 MB is read from outside the caches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/augment.h"
#include "data/cifar_binary.h"
#include "data/sampler.h"

namespace ct {

struct PipelineOptions {
  uint64_t seed = 0;
  bool shuffle = true;
  std::vector<AugmentStep> augment = {};
  int64_t train_batch = 0;  // images of one step, over all ranks and micro-batches
  int64_t micro_batch = 0;  // divides train_batch
  // Those micro-batches of each step that this rank will ask for: first, first + stride, ... (micros 0: to the step's
  // end). A wrong guess costs only time.
  int64_t first_micro = 0, micros = 0, micro_stride = 1;
};

class Pipeline {
 public:
  /// Trains on `images` of the set (HoldOut::training). The set must outlive the pipeline. Error(usage) when they do
  /// not fill one step.
  Pipeline(const ImageSet& set, std::vector<uint32_t> images, PipelineOptions options);

  int64_t images() const { return static_cast<int64_t>(images_.size()); }
  /// Whole batches only: what is left at the end of an epoch's order is not used in that epoch.
  int64_t steps_per_epoch() const { return images() / options_.train_batch; }
  int64_t micros_per_step() const { return options_.train_batch / options_.micro_batch; }

  /// Micro-batch k (global) of a step: images u8 [micro][3*32*32], draws [micro], labels i32 [micro].
  void fill(int64_t epoch, int64_t step, int64_t k, std::span<uint8_t> images, std::span<Draw> draws,
            std::span<int32_t> labels);

 private:
  /// The images that this rank's n-th next micro-batch should hold; none behind the epoch's end.
  std::span<const uint32_t> upcoming(int64_t step, int64_t k, int64_t n) const;

  const ImageSet& set_;
  std::vector<uint32_t> images_;
  PipelineOptions options_;
  int64_t epoch_ = -1;
  std::vector<uint32_t> order_;  // of images in the set, for epoch_
};

/// Every image of a list once, in its order, `batch` at a time.
class EvalPipeline {
 public:
  EvalPipeline(const ImageSet& set, int64_t batch);  // the whole set, in file order
  EvalPipeline(const ImageSet& set, std::vector<uint32_t> images, int64_t batch);

  int64_t images() const { return static_cast<int64_t>(images_.size()); }
  int64_t batches() const { return (images() + batch_ - 1) / batch_; }

  /// Batch b: buffers as in Pipeline::fill, for `batch` images. Returns how many there are: fewer in the last one,
  /// whose remaining places are black images of class 0, not to be counted. Draws are all zero.
  int64_t fill(int64_t b, std::span<uint8_t> images, std::span<Draw> draws, std::span<int32_t> labels) const;

 private:
  const ImageSet& set_;
  std::vector<uint32_t> images_;
  int64_t batch_;
};

}  // namespace ct
