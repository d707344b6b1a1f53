// From merged sources to a Config: values are read, and rules between keys checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/merge.h"

namespace ct {

/// Throws Error(usage) with the place of the value at fault; `where` stands for the sources as a whole. `warnings`
/// receives lines for the user.
Config validate(const Merge& merge, const std::string& where, std::vector<std::string>* warnings);

// ---- its parts, for whoever judges keys one by one

/// Reads a value into the field, or leaves it open; a schedule's rate is then the optimizer's.
void read_or_leave_open(Config& config, const ConfigField& field, const document::Node& node);

/// Why a key that there is has no meaning in this configuration, whose optimizer, schedule and model are read: they do
/// not take it. Empty: it has one.
std::string stray_key(const Config& config, const std::string& key);

/// Where a key's value was written, for the beginning of an error's line.
std::string place_of_key(const Config& config, const std::string& key);

/// Sets what follows from several keys.
void settle_together(Config& config);

/// Rules of a CPU, which also hold where `device: auto` finds nothing else: what they say.
inline constexpr std::string_view kNoFp16OnCpu =
    "fp16.enabled: a CPU does not compute in fp16: --set fp16.enabled=false --set bf16.enabled=auto";
inline constexpr std::string_view kNoNcclOnCpu =
    "communication.backend: nccl connects GPUs, but device is cpu; use auto";
/// And one of GPUs.
inline constexpr std::string_view kNoParamOffload =
    "zero_optimization.offload_param.device: a GPU's parameters stay there: remove it; zero_optimization.stage: 3 "
    "partitions them over the ranks";

/// Rules between keys, of an optimizer only where there is one.
void check_together(const Config& config, std::vector<std::string>* warnings);

}  // namespace ct
