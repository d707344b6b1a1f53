#include "deepspeed/tutorial_flags.h"

#include <algorithm>

#include "base/error.h"

namespace ct {
namespace {

/// Every rank has all experts here, so that where they would lie changes nothing.
void add_mixture_flags(const TutorialFlags::Moe& flags, std::vector<ConfigOverride>& overrides,
                       std::vector<std::string>* warnings) {
  const auto set = [&](const char* key, const std::string& value, const std::string& flag) {
    overrides.push_back({str("model.", key), value, str(flag, " ", value)});
  };
  if (flags.moe) overrides.push_back({"model.name", "cnn_moe", "--moe"});
  if (!flags.num_experts.empty()) {
    std::string list, words = "--num-experts";
    for (const int64_t n : flags.num_experts) {
      list += (list.empty() ? "[" : ", ") + std::to_string(n);
      words += " " + std::to_string(n);
    }
    overrides.push_back({"model.num_experts", list + "]", words});
  }
  if (flags.top_k) set("top_k", std::to_string(*flags.top_k), "--top-k");
  if (flags.min_capacity) set("min_capacity", std::to_string(*flags.min_capacity), "--min-capacity");
  if (flags.mlp_type) set("mlp_type", *flags.mlp_type, "--mlp-type");
  if (flags.noisy_gate_policy) {
    const bool none = *flags.noisy_gate_policy == "None";  // as the example has it
    set("noisy_gate_policy", none ? "none" : *flags.noisy_gate_policy, "--noisy-gate-policy");
  }
  if (flags.param_group) overrides.push_back({"model.moe_param_group", "true", "--moe-param-group"});
  if (!flags.ep_world_size) return;
  const int64_t ranks = *flags.ep_world_size;
  if (ranks < 1) fail(ExitCode::usage, "--ep-world-size must be at least 1, found ", ranks);
  for (const int64_t n : flags.num_experts)
    if (n % ranks != 0)
      fail(ExitCode::usage, "--ep-world-size ", ranks, ": number of experts (", n,
           ") should be divisible by expert parallel size (", ranks, ")");
  if (ranks > 1)
    warnings->push_back(str("--ep-world-size ", ranks, ": every rank keeps all experts; results are the same"));
}

}  // namespace

std::vector<ConfigOverride> tutorial_flag_overrides(const TutorialFlags& flags, const Merge& files,
                                                    std::vector<std::string>* warnings) {
  std::vector<ConfigOverride> overrides;
  const auto set_number = [&](const char* key, std::optional<int64_t> value, const char* flag) {
    if (value) overrides.push_back({key, std::to_string(*value), str(flag, " ", *value)});
  };
  set_number("train_batch_size", flags.batch_size, "-b");
  const document::Node* micro = files.find("train_micro_batch_size_per_gpu");
  if (flags.batch_size && micro && micro->kind == document::Kind::integer && micro->integer > *flags.batch_size)
    set_number("train_micro_batch_size_per_gpu", flags.batch_size, "-b");
  set_number("train.epochs", flags.epochs, "-e");
  set_number("train.log_interval", flags.log_interval, "--log-interval");
  set_number("zero_optimization.stage", flags.stage, "--stage");
  if (flags.dtype) {
    const std::string origin = "--dtype " + *flags.dtype;
    if (*flags.dtype != "fp32" && *flags.dtype != "bf16" && *flags.dtype != "fp16")
      fail(ExitCode::usage, "--dtype must be fp32, bf16 or fp16, found ", document::quoted(*flags.dtype));
    overrides.push_back({"bf16.enabled", *flags.dtype == "bf16" ? "true" : "false", origin});
    overrides.push_back({"fp16.enabled", *flags.dtype == "fp16" ? "true" : "false", origin});
  }
  if (flags.with_cuda) overrides.push_back({"device", "cuda", "--with_cuda"});
  const document::Node* decay = files.find("train.ema.decay");
  const bool has_average = decay && !(decay->is_number() && decay->real == 0);
  if (flags.use_ema && !has_average) overrides.push_back({"train.ema.decay", "0.999", "--use_ema"});
  if (flags.sync_bn) overrides.push_back({"model.sync_bn", "true", "--sync-bn"});
  if (flags.backend) {
    const bool gloo = *flags.backend == "gloo";
    if (gloo)
      warnings->emplace_back("--backend gloo: the program uses its own ranks instead (communication.backend auto)");
    overrides.push_back({"communication.backend", gloo ? "auto" : *flags.backend, "--backend " + *flags.backend});
  }
  add_mixture_flags(flags.moe, overrides, warnings);
  if (flags.local_rank) warnings->emplace_back("--local_rank is ignored: the launcher's environment sets the rank");
  return overrides;
}

}  // namespace ct
