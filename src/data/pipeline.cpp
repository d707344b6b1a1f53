#include "data/pipeline.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ct {

Pipeline::Pipeline(const ImageSet& set, std::vector<uint32_t> images, PipelineOptions options)
    : set_(set), images_(std::move(images)), options_(std::move(options)) {
  check(options_.train_batch > 0 && options_.micro_batch > 0 && options_.train_batch % options_.micro_batch == 0,
        "a batch of ", options_.train_batch, " in micro-batches of ", options_.micro_batch);
  if (options_.micros == 0)
    options_.micros = (micros_per_step() - options_.first_micro + options_.micro_stride - 1) / options_.micro_stride;
  check(options_.first_micro >= 0 && options_.micros > 0 && options_.micro_stride > 0 &&
            options_.first_micro + (options_.micros - 1) * options_.micro_stride < micros_per_step(),
        options_.micros, " micro-batches from ", options_.first_micro, " by ", options_.micro_stride, " of ",
        micros_per_step());
  if (steps_per_epoch() == 0) {
    fail(ExitCode::usage, "train_batch_size: ", options_.train_batch, " is more than the ", this->images(),
         " training images; lower it or data.validation");
  }
}

void Pipeline::fill(int64_t epoch, int64_t step, int64_t k, std::span<uint8_t> images, std::span<Draw> draws,
                    std::span<int32_t> labels) {
  const size_t micro = options_.micro_batch;
  check(epoch >= 0 && step >= 0 && step < steps_per_epoch() && k >= 0 && k < micros_per_step(), "no micro-batch ", k,
        " of step ", step);
  check(images.size() == micro * kImageBytes && draws.size() == micro && labels.size() == micro,
        "buffers do not fit a micro-batch of ", micro);
  if (epoch != epoch_) {
    order_ = permutation(options_.seed, epoch, static_cast<uint32_t>(images_.size()), options_.shuffle);
    for (uint32_t& place : order_) place = images_[place];
    epoch_ = epoch;
  }
  const auto chosen = micro_batch_images(order_, options_.train_batch, options_.micro_batch, step, k);
  for (size_t i = 0; i < micro; ++i) {
    std::memcpy(images.data() + i * kImageBytes, set_.pixels(chosen[i]), kImageBytes);
    draws[i] = draw_augmentation(options_.augment, options_.seed, epoch, chosen[i]);
    labels[i] = set_.label(chosen[i]);
  }
  set_.check_not_cut();
  for (uint32_t image : upcoming(step, k, 2)) set_.prefetch_pages(image);
  for (uint32_t image : upcoming(step, k, 1)) set_.prefetch(image);
}

std::span<const uint32_t> Pipeline::upcoming(int64_t step, int64_t k, int64_t n) const {
  const int64_t place = (k - options_.first_micro) / options_.micro_stride + n;
  const int64_t then = step + place / options_.micros;
  if (place < 0 || then >= steps_per_epoch()) return {};  // the next epoch has another order
  constexpr int64_t kMost = 32;                           // more would push each other out of the caches
  return micro_batch_images(order_, options_.train_batch, options_.micro_batch, then,
                            options_.first_micro + place % options_.micros * options_.micro_stride)
      .first(std::min(kMost, options_.micro_batch));
}

EvalPipeline::EvalPipeline(const ImageSet& set, int64_t batch)
    : EvalPipeline(set, permutation(0, 0, static_cast<uint32_t>(set.count()), false), batch) {}

EvalPipeline::EvalPipeline(const ImageSet& set, std::vector<uint32_t> images, int64_t batch)
    : set_(set), images_(std::move(images)), batch_(batch) {
  check(batch > 0, "an evaluation batch of ", batch);
}

int64_t EvalPipeline::fill(int64_t b, std::span<uint8_t> images, std::span<Draw> draws,
                           std::span<int32_t> labels) const {
  const size_t batch = batch_;
  check(b >= 0 && b < batches(), "no evaluation batch ", b);
  check(images.size() == batch * kImageBytes && draws.size() == batch && labels.size() == batch,
        "buffers do not fit an evaluation batch of ", batch);
  const size_t count = std::min(batch_, this->images() - b * batch_);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t image = images_[b * batch_ + i];
    std::memcpy(images.data() + i * kImageBytes, set_.pixels(image), kImageBytes);
    labels[i] = set_.label(image);
  }
  set_.check_not_cut();
  std::fill(images.begin() + count * kImageBytes, images.end(), uint8_t{0});
  std::fill(labels.begin() + count, labels.end(), 0);
  std::fill(draws.begin(), draws.end(), Draw{});
  return static_cast<int64_t>(count);
}

}  // namespace ct
