// One number for "the same weights", whatever the ranks, stage, layout or machine that made them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/rows.h"

namespace ct {

/// In a file of weights: the moving average of "conv1.weight" is "conv1.weight.ema".
inline constexpr std::string_view kEmaSuffix = ".ema";
/// Is that tensor of `file` an average? One of such a name is, where the file has what it would be the average of.
bool is_average(const SafetensorsFile& file, std::string_view name);

/// SHA-256 over the f32 little-endian elements of parameters and running statistics, names sorted bytewise, nothing
/// between them; "…num_batches_tracked" and averages are left out. Another type than F32 is
/// Error(ExitCode::checkpoint).
std::string weights_sha256(std::vector<TensorView> weights);
/// weights_sha256 of a file, read a little at a time: it never lies in memory as a whole.
std::string weights_sha256(const SafetensorsFile& file);
/// The same of the averages in their place, under the names of what they are averages of; empty: the file has none.
std::string ema_sha256(const SafetensorsFile& file);

/// SHA-256 over all logical tensors (name, type, shape, elements; sorted by name), however they are cut, and the state,
/// from which the caller has taken what may differ between equal runs (ranks, stage, times).
std::string state_sha256(std::vector<LogicalTensor> tensors, const nlohmann::json& state);

}  // namespace ct
