// A hash that is equal for equal weights, independent of ranks, stage, layout and machine.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/rows.h"

namespace ct {

/// In a file of weights: the moving average of "conv1.weight" is "conv1.weight.ema".
inline constexpr std::string_view kEmaSuffix = ".ema";
/// Is that tensor of `file` an average? It is if it has such a name and the file also contains the tensor without the
/// suffix.
bool is_average(const SafetensorsFile& file, std::string_view name);

/// SHA-256 over the f32 little-endian elements of parameters and running statistics, concatenated in the bytewise order
/// of their names; "…num_batches_tracked" and averages are left out. A type other than F32 is
/// Error(ExitCode::checkpoint).
std::string weights_sha256(std::vector<TensorView> weights);
/// weights_sha256 of a file, read in small parts, so that it is never in memory as a whole.
std::string weights_sha256(const SafetensorsFile& file);
/// The same hash with the averages instead of the weights, under the weights' names; empty: the file has none.
std::string ema_sha256(const SafetensorsFile& file);

/// SHA-256 over all logical tensors (name, type, shape, elements; sorted by name), independent of their partition, and
/// over `state`, from which the caller removes the fields that may differ between equal runs (ranks, stage, times).
std::string state_sha256(std::vector<LogicalTensor> tensors, const nlohmann::json& state);

}  // namespace ct
