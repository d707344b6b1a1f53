// The tensors of a weights file of any program, under the names of the model's parameters, and their elements.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "train/weights.h"

namespace ct {

std::vector<TensorSpec> weight_specs(const Graph& graph);
/// The tensors that a weights file must have. They may have any floating-point type; names and shapes must be the
/// model's.
std::vector<TensorSpec> wanted_weights(const std::vector<LogicalTensor>& tensors, const Graph& graph, const Path& path);

/// The tensors of one set, sorted, under the names of their parameters.
std::vector<LogicalTensor> tensors_of_set(const SafetensorsFile& file, WeightSet set);

/// Is it a counter of PyTorch's batch norm or AveragedModel, on which nothing here depends?
bool is_counter(std::string_view name);

/// Renames the tensors, which stay sorted, to the names of `wanted`: removes a common prefix of all names, which module
/// wrappers add ("module." of DataParallel, "_orig_mod." of torch.compile), and converts names of other versions.
/// Returns the prefix; empty: there is none.
std::string take_wanted_names(std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted);

/// Its name in its file.
inline const std::string& stored_name(const LogicalTensor& tensor) { return tensor.pieces.front().stored->name; }

/// Calls f(first row, elements of whole rows in PyTorch's order) bucket by bucket for rows begin..end.
void each_bucket(const LogicalTensor& tensor, int64_t begin, int64_t end,
                 const std::function<void(int64_t, std::span<const float>)>& f);
/// Throws Error(checkpoint) for an element of a bucket that begins with `row`.
[[noreturn]] void refuse_element(const LogicalTensor& tensor, int64_t row, size_t element, const std::string& why);

}  // namespace ct
