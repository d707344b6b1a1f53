// Flags of the tutorials' scripts, and the keys that they set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/merge.h"

namespace ct {

struct TutorialFlags {
  std::optional<int64_t> batch_size = {};    // -b: train_batch_size; a larger given micro-batch is lowered to it
  std::optional<int64_t> epochs = {};        // -e
  std::optional<int64_t> stage = {};         // --stage
  std::optional<int64_t> log_interval = {};  // --log-interval
  std::optional<std::string> dtype = {};     // --dtype fp32 | bf16 | fp16
  std::optional<std::string> backend = {};   // --backend mpi | gloo | nccl | threads | auto
  std::optional<int64_t> local_rank = {};    // --local_rank: ignored with a note
  bool with_cuda = false;
  bool use_ema = false;
  bool sync_bn = false;
  bool deepspeed = false;  // --deepspeed: no effect
  struct Moe {             // of the example with mixtures of experts, as given; empty: absent
    bool moe = false;      // --moe: model.name cnn_moe
    std::vector<int64_t> num_experts = {};
    std::optional<int64_t> top_k = {}, min_capacity = {}, ep_world_size = {};
    std::optional<std::string> mlp_type = {}, noisy_gate_policy = {};
    bool param_group = false;
  } moe = {};
};

/// The keys that flags set; some depend on values in the files. Throws Error(usage) for values that no script knows.
std::vector<ConfigOverride> tutorial_flag_overrides(const TutorialFlags& flags, const Merge& files,
                                                    std::vector<std::string>* warnings);

}  // namespace ct
