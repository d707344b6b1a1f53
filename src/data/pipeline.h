// Batches for training and evaluation, from a data set into the caller's buffers.
//
// A pipeline is a function of (seed, epoch, step, micro-batch): it may be asked in any order and by any number of
// ranks, each with its own. What should come next is prepared: a direct set's images are copied in line and asked of
// the memory a micro-batch earlier, as a shuffled set of 150 MB is read from outside the caches; those of other sets
// are read ahead by a Loader.
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
  bool same_order = false;  // every epoch has the first one's
  std::vector<AugmentStep> augment = {};
  int64_t train_batch = 0;  // images of one step, over all ranks and micro-batches
  int64_t micro_batch = 0;  // divides train_batch
  // The micro-batches of each step that this rank will ask for: first, first + stride, ... (micros 0: to the step's
  // end). A wrong guess costs only time.
  int64_t first_micro = 0, micros = 0, micro_stride = 1;
  int workers = 1;                     // of a set that is not direct
  std::function<void()> arrived = {};  // see LoaderOptions
};

class Pipeline {
 public:
  /// Trains on `images` of the set (HoldOut::training). The set must outlive the pipeline. Error(usage) when they do
  /// not fill one step.
  Pipeline(const DataSet& set, std::vector<uint32_t> images, PipelineOptions options);

  int64_t images() const { return static_cast<int64_t>(images_.size()); }
  const SampleShape& sample() const { return set_.shape(); }
  /// Whole batches only: what is left at the end of an epoch's order is not used in that epoch.
  int64_t steps_per_epoch() const { return images() / options_.train_batch; }
  int64_t micros_per_step() const { return options_.train_batch / options_.micro_batch; }
  /// Threads that read ahead; none for a direct set.
  int workers() const { return loader_ ? options_.workers : 0; }
  /// Samples so far in which another image took a damaged one's place.
  int64_t replaced() const { return replaced_; }

  /// The first samples of the first step of all, at most so many, as the set gives them: u8 [N][C][H][W], before what
  /// the device does to them. Reads them in line, and counts nothing.
  std::vector<uint8_t> first_samples(int64_t most) const;

  /// Micro-batch k (global) of a step, and its key of dropouts where `to` has a place for it.
  void fill(int64_t epoch, int64_t step, int64_t k, const Inputs& to);

 private:
  struct Order {
    int64_t epoch = -1;
    std::vector<uint32_t> images;  // of the set
  };
  std::span<const uint32_t> order(int64_t epoch);
  std::span<const uint32_t> chosen(int64_t epoch, int64_t step, int64_t k);
  /// The samples of one of this rank's micro-batches, numbered through all epochs.
  SampleList planned(int64_t number);
  /// The images that this rank's n-th next micro-batch should hold; none behind the epoch's end.
  std::span<const uint32_t> upcoming(int64_t epoch, int64_t step, int64_t k, int64_t n);

  const DataSet& set_;
  std::vector<uint32_t> images_;
  PipelineOptions options_;
  Augmentation augmentation_;
  std::array<Order, 2> orders_;   // a loader is in the next epoch, or in later ones, before this one ends
  std::vector<int64_t> written_;  // read_sample()'s answers for the micro-batch that is filled
  int64_t replaced_ = 0;
  std::unique_ptr<Loader> loader_;
};

/// Every image of a list once, in its order, `batch` at a time.
class EvalPipeline {
 public:
  EvalPipeline(const DataSet& set, int64_t batch, int workers = 1);  // the whole set, in file order
  EvalPipeline(const DataSet& set, std::vector<uint32_t> images, int64_t batch, int workers = 1);

  const DataSet& set() const { return set_; }
  int64_t images() const { return static_cast<int64_t>(images_.size()); }
  int64_t batches() const { return (images() + batch_ - 1) / batch_; }

  /// A loader for whoever is about to ask for batches first, first + stride, ...; null: the set is direct.
  std::unique_ptr<Loader> read_ahead(int64_t stride, std::function<void()> arrived) const;

  /// Batch b, for `batch` images. Returns the labels of those that there are: fewer in the last one. The other places,
  /// and those whose label is kNoLabel as their image is damaged (kLeftOut), are black images of class 0, not
  /// to be counted. Draws are all zero.
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
