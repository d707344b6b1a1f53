// Keys whose values are one of a few words. Modules with such keys define their own: data/dataset.h (OnCorrupt),
// data/augmentation.h, optim/, plan/lower.h (Recompute).
#pragma once

#include <bitset>

#include "base/choice.h"

namespace ct {

/// train.best.split: the split that selects best.bin.
enum class BestSplit : uint8_t { last, val, test };
constexpr auto words_of(BestSplit) { return std::to_array<std::string_view>({"last", "val", "test"}); }
/// train.best.metric, train.early_stopping.metric.
enum class Metric : uint8_t { accuracy, loss };
constexpr auto words_of(Metric) { return std::to_array<std::string_view>({"accuracy", "loss"}); }
/// train.eval_views: the copies of an image whose logits' weighted mean an evaluation takes.
///   plain     the image itself
///   mirrored  also its mirror image
///   shifted   also both shifted by a pixel, up and left, and down and right, with half the weight: the multi-crop of
///             Jordan (2024), "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", black at the edges
enum class EvalViews : uint8_t { plain, mirrored, shifted };
constexpr auto words_of(EvalViews) { return std::to_array<std::string_view>({"plain", "mirrored", "shifted"}); }
/// checkpoint.on_failure: the reaction to a failed save during training.
enum class SaveFailure : uint8_t { warn, error };
constexpr auto words_of(SaveFailure) { return std::to_array<std::string_view>({"warn", "error"}); }
/// communication.backend.
enum class CommBackend : uint8_t { automatic, threads, mpi, nccl };
constexpr auto words_of(CommBackend) { return std::to_array<std::string_view>({"auto", "threads", "mpi", "nccl"}); }
/// communication_data_type: the type of gradients in messages.
enum class CommDataType : uint8_t { fp32, fp16, bf16 };
constexpr auto words_of(CommDataType) { return std::to_array<std::string_view>({"fp32", "fp16", "bf16"}); }
/// zero_optimization.offload_optimizer.device and offload_param.device: the memory of the optimizer's state, and of
/// parameters.
enum class OffloadDevice : uint8_t { none, cpu };
constexpr auto words_of(OffloadDevice) { return std::to_array<std::string_view>({"none", "cpu"}); }

/// compat: unexpected behaviours of DeepSpeed that a configuration may enable. By default all are off.
enum class CompatFlag : uint8_t {
  first_step,      // the first step of a warm-up uses the optimizer's own rate, as up to DeepSpeed 0.14
  cosine_rises,    // WarmupCosineLR continues its cosine after total_num_steps
  scaler_b,        // the loss scale of stage 0 has no hysteresis and never ends the run
  scale_2_32,      // stages 1 to 3 begin at 2^32 without hysteresis, if fp16 has no key of a dynamic scale
  scale_first,     // a step that doubles the loss scale is divided by the doubled one
  adam_t,          // stage 0 in fp16: Adam's bias correction counts from 2
  fixed_order,     // every epoch has the order of the first one
  elastic_excess,  // accepts a common multiple of elastic micro-batches above max_train_batch_size
  console,         // lines of progress and messages of the loss scale in DeepSpeed's form
};
constexpr auto words_of(CompatFlag) {
  return std::to_array<std::string_view>({"first_step", "cosine_rises", "scaler_b", "scale_2_32", "scale_first",
                                          "adam_t", "fixed_order", "elastic_excess", "console"});
}

class Compat {
 public:
  bool has(CompatFlag flag) const { return flags_[static_cast<size_t>(flag)]; }
  void add(CompatFlag flag) { flags_.set(static_cast<size_t>(flag)); }
  void add_all() { flags_.set(); }
  bool empty() const { return flags_.none(); }

 private:
  std::bitset<words_of(CompatFlag{}).size()> flags_;
};

}  // namespace ct
