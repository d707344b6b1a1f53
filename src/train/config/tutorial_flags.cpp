#include "train/config/tutorial_flags.h"

#include <algorithm>

#include "base/error.h"
#include "train/config/document.h"

namespace ct {

std::vector<ConfigOverride> tutorial_flag_overrides(const TutorialFlags& flags, std::optional<int64_t> micro,
                                                    bool has_average, std::vector<std::string>* warnings) {
  std::vector<ConfigOverride> overrides;
  const auto set_number = [&](const char* key, std::optional<int64_t> value, const char* flag) {
    if (value) overrides.push_back({key, std::to_string(*value), str(flag, " ", *value)});
  };
  set_number("train_batch_size", flags.batch_size, "-b");
  if (flags.batch_size && micro && *micro > *flags.batch_size)
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
  if (flags.use_ema && !has_average) overrides.push_back({"train.ema.decay", "0.999", "--use_ema"});
  if (flags.sync_bn) overrides.push_back({"model.sync_bn", "true", "--sync-bn"});
  if (flags.backend) {
    const bool gloo = *flags.backend == "gloo";
    if (gloo)
      warnings->emplace_back("--backend gloo: this program's own ranks take its place (communication.backend auto)");
    overrides.push_back({"communication.backend", gloo ? "auto" : *flags.backend, "--backend " + *flags.backend});
  }
  if (flags.local_rank)
    warnings->emplace_back("--local_rank is ignored: the launcher's environment says which rank this is");
  return overrides;
}

}  // namespace ct
