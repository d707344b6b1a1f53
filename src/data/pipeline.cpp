#include "data/pipeline.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/loader.h"

namespace ct {
namespace {

void check_buffers(const Inputs& to, const SampleShape& shape, size_t batch, const Augmentation& augmentation) {
  const size_t mixed = augmentation.mixes() ? batch : 0, pixels = to.index.empty() ? batch * shape.bytes() : 0;
  check(to.images.size() == pixels && (to.index.empty() || to.index.size() == batch) && to.draws.size() == batch &&
            to.labels.size() == batch && to.edits.size() == batch * static_cast<size_t>(augmentation.edits()) &&
            to.second_labels.size() == mixed && to.second_shares.size() == mixed,
        "buffers do not fit a batch of ", batch, " images of ", to_string(shape));
}

void read_in_line(const DataSet& set, const SampleList& list, uint8_t* to, std::span<int64_t> written) {
  const size_t bytes = set.shape().bytes();
  for (size_t i = 0; i < list.images.size(); ++i) written[i] = read_sample(set, list, i, to + i * bytes);
}

}  // namespace

Pipeline::Pipeline(const DataSet& set, std::vector<uint32_t> images, PipelineOptions options)
    : set_(set),
      images_(std::move(images)),
      options_(std::move(options)),
      augmentation_(options_.augment, set.shape().height, set.shape().width, set.cropped()) {
  check(!augmentation_.mixes() || options_.micro_batch > 1, "images of a micro-batch of one are mixed");
  check(options_.train_batch > 0 && options_.micro_batch > 0 && options_.train_batch % options_.micro_batch == 0,
        "a batch of ", options_.train_batch, " in micro-batches of ", options_.micro_batch);
  if (options_.micros == 0)
    options_.micros = (micros_per_step() - options_.first_micro + options_.micro_stride - 1) / options_.micro_stride;
  check(options_.first_micro >= 0 && options_.micros > 0 && options_.micro_stride > 0 &&
            options_.first_micro + (options_.micros - 1) * options_.micro_stride < micros_per_step(),
        options_.micros, " micro-batches from ", options_.first_micro, " by ", options_.micro_stride, " of ",
        micros_per_step());
  if (steps_per_epoch() == 0) {
    fail(ExitCode::usage, "train_batch_size: ", options_.train_batch, " is more than the ",
         counted(this->images(), "training image"), "; lower it or data.validation, or raise data.limit");
  }
  written_.resize(static_cast<size_t>(options_.micro_batch));
  read_.resize(static_cast<size_t>(set.classes()));
  if (options_.sampler == Sampler::balanced) {
    by_class_.resize(static_cast<size_t>(set.classes()));
    for (const uint32_t image : images_) by_class_[static_cast<size_t>(set.label(image))].push_back(image);
    std::erase_if(by_class_, [](const auto& of_class) { return of_class.empty(); });
  }
  if (set.direct()) return;
  loader_ = std::make_unique<Loader>(
      set, options_.micro_batch, [this](int64_t number) { return planned(number); },
      LoaderOptions{.workers = options_.workers, .arrived = options_.arrived});
}

Pipeline::Order Pipeline::make_order(int64_t epoch) const {
  const int64_t drawn = options_.same_order ? 0 : epoch;
  Order order{.epoch = epoch};
  if (options_.sampler == Sampler::balanced) {
    order.images = balanced_draws(options_.seed, drawn, images(), by_class_);
    order.repeats = earlier_occurrences(order.images);
    return order;
  }
  order.images = permutation(options_.seed, drawn, static_cast<uint32_t>(images_.size()), options_.shuffle);
  for (uint32_t& place : order.images) place = images_[place];
  return order;
}

const Pipeline::Order& Pipeline::order(int64_t epoch) {
  Order& order = orders_[static_cast<size_t>(epoch % 2)];
  if (order.epoch != epoch) order = make_order(epoch);
  return order;
}

SampleList Pipeline::chosen(int64_t epoch, int64_t step, int64_t k) {
  const Order& all = order(epoch);
  const auto part = [&](const std::vector<uint32_t>& of) {
    return micro_batch_images(of, options_.train_batch, options_.micro_batch, step, k);
  };
  return {.images = part(all.images),
          .key = {options_.seed, epoch},
          .others = images_,
          .repeats = all.repeats.empty() ? std::span<const uint32_t>() : part(all.repeats)};
}

SampleList Pipeline::planned(int64_t number) {
  const int64_t step = number / options_.micros, epoch = step / steps_per_epoch();
  const int64_t k = options_.first_micro + number % options_.micros * options_.micro_stride;
  return chosen(epoch, step % steps_per_epoch(), k);
}

std::vector<uint8_t> Pipeline::first_samples(int64_t most) const {
  Order order = make_order(0);
  order.images.resize(static_cast<size_t>(std::min(most, options_.train_batch)));
  std::vector<uint8_t> samples(order.images.size() * set_.shape().bytes());
  std::vector<int64_t> written(order.images.size());
  read_in_line(set_, {order.images, {options_.seed, 0}, images_, order.repeats}, samples.data(), written);
  return samples;
}

void Pipeline::fill(int64_t epoch, int64_t step, int64_t k, const Inputs& to) {
  const auto micro = static_cast<size_t>(options_.micro_batch);
  check(epoch >= 0 && step >= 0 && step < steps_per_epoch() && k >= 0 && k < micros_per_step(), "no micro-batch ", k,
        " of step ", step);
  check_buffers(to, set_.shape(), micro, augmentation_);
  check(to.class_weights.size() == options_.class_weights.size(), "a buffer that does not fit the class weights");
  const int64_t from_first = k - options_.first_micro, place = from_first / options_.micro_stride;
  const bool foreseen = from_first >= 0 && from_first % options_.micro_stride == 0 && place < options_.micros;
  const bool resident = !to.index.empty(), ahead = loader_ && foreseen;
  check(!resident || set_.direct(), "a set that is decoded, in a device's memory");
  // It may plan epochs ahead, in place of the order of this one.
  if (ahead) loader_->take((epoch * steps_per_epoch() + step) * options_.micros + place, to.images.data(), written_);
  if (to.dropout_key != nullptr) *to.dropout_key = {options_.seed, epoch * steps_per_epoch() + step, k};
  const SampleList list = chosen(epoch, step, k);
  if (resident) {
    std::ranges::copy(list.images, to.index.begin());
    std::ranges::copy(list.images, written_.begin());
  } else if (!ahead) {
    read_in_line(set_, list, to.images.data(), written_);
  }
  set_.check_not_cut();
  const auto edits = static_cast<size_t>(augmentation_.edits());
  for (size_t i = 0; i < micro; ++i) {
    const auto [moves, mix] = augmentation_.draw(list, i, to.edits.subspan(i * edits, edits));
    to.draws[i] = moves;
    to.labels[i] = set_.label(written_[i]);
    note_read(list.images[i], written_[i]);
    if (!augmentation_.mixes()) continue;
    to.second_labels[i] = mix.partner < 0 ? to.labels[i] : set_.label(written_[static_cast<size_t>(mix.partner)]);
    to.second_shares[i] = mix.share;
  }
  std::ranges::copy(options_.class_weights, to.class_weights.begin());
  if (!loader_ && !resident) set_.prefetch(upcoming(epoch, step, k, 1), upcoming(epoch, step, k, 2));
}

void Pipeline::note_read(int64_t wanted, int64_t written) {
  ++read_[static_cast<size_t>(set_.label(written))].sound;
  if (written == wanted) return;
  ++replaced_;
  int64_t& first = read_[static_cast<size_t>(set_.label(wanted))].first_damaged;
  first = first < 0 ? wanted : std::min(first, wanted);
}

std::span<const uint32_t> Pipeline::upcoming(int64_t epoch, int64_t step, int64_t k, int64_t n) {
  const int64_t place = (k - options_.first_micro) / options_.micro_stride + n;
  const int64_t then = step + place / options_.micros;
  if (place < 0 || then >= steps_per_epoch()) return {};  // the next epoch has another order
  constexpr int64_t kMost = 32;                           // more would push each other out of the caches
  return chosen(epoch, then, options_.first_micro + place % options_.micros * options_.micro_stride)
      .images.first(static_cast<size_t>(std::min(kMost, options_.micro_batch)));
}

EvalPipeline::EvalPipeline(const DataSet& set, int64_t batch, int workers)
    : EvalPipeline(set, permutation(0, 0, static_cast<uint32_t>(set.count()), false), batch, workers) {}

EvalPipeline::EvalPipeline(const DataSet& set, std::vector<uint32_t> images, int64_t batch, int workers)
    : set_(set), images_(std::move(images)), batch_(batch), workers_(workers) {
  check(batch > 0, "an evaluation batch of ", batch);
}

std::span<const uint32_t> EvalPipeline::chosen(int64_t b) const {
  if (b >= batches()) return {};
  return std::span(images_).subspan(static_cast<size_t>(b * batch_),
                                    static_cast<size_t>(std::min(batch_, images() - b * batch_)));
}

std::unique_ptr<Loader> EvalPipeline::read_ahead(int64_t stride, std::function<void()> arrived) const {
  if (set_.direct()) return nullptr;
  return std::make_unique<Loader>(
      set_, batch_,
      [this](int64_t b) {
        return SampleList{chosen(b), {}};
      },
      LoaderOptions{.workers = workers_, .stride = stride, .arrived = std::move(arrived)});
}

std::vector<int32_t> EvalPipeline::fill(int64_t b, const Inputs& to, Loader* ahead) const {
  check(b >= 0 && b < batches(), "no evaluation batch ", b);
  check_buffers(to, set_.shape(), static_cast<size_t>(batch_), {});
  const auto images = chosen(b);
  std::vector<int64_t> written(images.size());
  if (ahead != nullptr)
    ahead->take(b, to.images.data(), written);
  else
    read_in_line(set_, {images, {}}, to.images.data(), written);
  set_.check_not_cut();
  const auto count = static_cast<int64_t>(images.size());
  std::vector<int32_t> labels(images.size(), kNoLabel);
  for (size_t i = 0; i < images.size(); ++i)
    if (written[i] != kLeftOut) labels[i] = set_.label(written[i]);
  std::ranges::transform(labels, to.labels.begin(), [](int32_t label) { return std::max(label, 0); });
  std::fill(to.images.begin() + count * static_cast<int64_t>(set_.shape().bytes()), to.images.end(), uint8_t{0});
  std::fill(to.labels.begin() + count, to.labels.end(), 0);
  std::fill(to.draws.begin(), to.draws.end(), Draw{});
  return labels;
}

}  // namespace ct
