// From files, the tutorial scripts' flags and --set words to one validated Config.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace ct {

/// One key given on the command line; `value` is YAML (for text: the bare text), `origin` how the user wrote it.
struct ConfigOverride {
  std::string key, value, origin;
};

/// Flags of the tutorial scripts that still work.
struct TutorialFlags {
  std::optional<int64_t> batch_size = {};    // -b: train_batch_size; the micro-batch, where given, is lowered to it
  std::optional<int64_t> epochs = {};        // -e
  std::optional<int64_t> stage = {};         // --stage
  std::optional<int64_t> log_interval = {};  // --log-interval
  std::optional<std::string> dtype = {};     // --dtype fp32 | bf16 | fp16
  std::optional<std::string> backend = {};   // --backend mpi | gloo | nccl | threads | auto
  std::optional<int64_t> local_rank = {};    // --local_rank: ignored with a note
  bool with_cuda = false;
  bool use_ema = false;
  bool sync_bn = false;  // --deepspeed itself asks for nothing
  struct Moe {           // of the example with mixtures of experts, as they are written; empty: not given
    bool moe = false;    // --moe: model.name cnn_moe
    std::vector<int64_t> num_experts = {};
    std::optional<int64_t> top_k = {}, min_capacity = {}, ep_world_size = {};
    std::optional<std::string> mlp_type = {}, noisy_gate_policy = {};
    bool param_group = false;
  } moe = {};
};

struct ConfigSources {
  std::vector<std::filesystem::path> files = {};  // in order: a later file's keys win
  bool begins_with_default = false;               // the first is default.yaml, which nobody has named
  TutorialFlags flags = {};
  std::vector<ConfigOverride> overrides = {};  // other flags that set a key, such as --output
  // "a.b=c", applied in order behind all of these; optimizer.type= first, as it clears the params
  std::vector<std::string> sets = {};
  std::vector<ConfigOverride> swept = {};  // of one run of a sweep: behind the sets
};

/// Reads, merges and checks. Every Error is ExitCode::usage, one line, with the place of the value at fault.
/// `warnings` receives lines for the user: ignored keys, settings that override each other.
Config load_config(const ConfigSources& sources, std::vector<std::string>* warnings);

/// The configuration that to_yaml once printed, from memory; `name` stands for the file in errors.
Config load_config_text(const std::string& text, const std::string& name);

}  // namespace ct
