// Converts merged sources to a Config: parses values and checks rules between keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/merge.h"

namespace ct {

/// Throws Error(usage) with the position of the faulty value; `where` describes the sources as a whole. `warnings`
/// receives messages for the user.
Config validate(const Merge& merge, const std::string& where, std::vector<std::string>* warnings);

// ---- the parts of validate(), for checks of single keys

/// Reads a value into the field, or leaves it open; a schedule's rate is then the optimizer's.
void read_or_leave_open(Config& config, const ConfigField& field, const document::Node& node);

/// The reason why a known key does not belong to the optimizer, schedule or model of this configuration, which must
/// already be read. Empty: it does.
std::string stray_key(const Config& config, const std::string& key);

/// The origin of a key's value, for the beginning of an error message.
std::string place_of_key(const Config& config, const std::string& key);

/// A graph with the model's parameters.
Graph graph_of_any_images(const Model& model);

/// Sets values that follow from several keys.
void settle_together(Config& config);

/// Error messages for CPUs, which also apply if `device: auto` finds only a CPU.
inline constexpr std::string_view kNoFp16OnCpu =
    "fp16.enabled: a CPU does not compute in fp16: --set fp16.enabled=false --set bf16.enabled=auto";
inline constexpr std::string_view kNoNcclOnCpu =
    "communication.backend: nccl connects GPUs, but device is cpu; use auto";
/// An error message for GPUs.
inline constexpr std::string_view kNoParamOffload =
    "zero_optimization.offload_param.device: a GPU's parameters stay there: remove it; zero_optimization.stage: 3 "
    "partitions them over the ranks";

/// Checks rules between keys; rules of an optimizer only if there is one.
void check_together(const Config& config, std::vector<std::string>* warnings);

}  // namespace ct
