// Other names of keys in DeepSpeed configurations, and what once had another form. Values have none.
#include "train/config/foreign.h"

namespace ct {
namespace {

constexpr KeyAlias kKeyAliases[] = {
    {"bfloat16", "bf16"},
    {"zero_optimization.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size"},
    {"zero_optimization.param_persistence_threshold", "zero_optimization.stage3_param_persistence_threshold"},
    {"zero_optimization.model_persistence_threshold", "zero_optimization.stage3_model_persistence_threshold"},
    {"zero_optimization.max_live_parameters", "zero_optimization.stage3_max_live_parameters"},
    {"zero_optimization.max_reuse_distance", "zero_optimization.stage3_max_reuse_distance"},
    {"zero_optimization.module_granularity_threshold", "zero_optimization.stage3_module_granularity_threshold"},
    {"zero_optimization.use_all_reduce_for_fetch_params", "zero_optimization.stage3_use_all_reduce_for_fetch_params"},
    {"zero_optimization.gather_16bit_weights_on_model_save",
     "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save",
     "zero_optimization.stage3_gather_16bit_weights_on_model_save", /*given_up=*/true},
};

constexpr OldForm kOldForms[] = {
    {"zero_optimization", false, "zero_optimization.stage", "0", "zero_optimization: {stage: 0}"},
    {"zero_optimization", true, "zero_optimization.stage", "1", "zero_optimization: {stage: 1}"},
    {"zero_optimization.cpu_offload", true, "zero_optimization.offload_optimizer.device", "cpu", "offload_optimizer"},
    {"zero_optimization.cpu_offload_param", true, "zero_optimization.offload_param.device", "cpu", "offload_param"},
};

}  // namespace

std::span<const KeyAlias> key_aliases() { return kKeyAliases; }

std::span<const OldForm> old_forms() { return kOldForms; }

}  // namespace ct
