// The key `compat`: surprises of the reference that are reproduced on request. Without it everything behaves as it
// should.
#pragma once

#include <bitset>

#include "base/choice.h"

namespace ct {

enum class CompatFlag : uint8_t {
  first_step,      // warm-ups begin with one step at the optimizer's own rate, as up to DeepSpeed 0.14
  cosine_rises,    // WarmupCosineLR goes on along its cosine after total_num_steps
  scaler_b,        // stage 0 has a loss scale without hysteresis, which never gives up
  scale_2_32,      // stages 1 to 3 begin at 2^32 without hysteresis, where fp16 names no key of a dynamic scale
  scale_first,     // a step that doubles the loss scale is divided by the doubled one
  adam_t,          // stage 0 in fp16: Adam's bias correction counts from 2
  fixed_order,     // every epoch has the first one's order
  elastic_excess,  // a common multiple of elastic micro-batches is taken though it is above max_train_batch_size
  console,         // lines of progress, and messages of the loss scale, in DeepSpeed's words
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
