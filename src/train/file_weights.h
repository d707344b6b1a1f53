// The tensors of a file of weights, whoever wrote it, under the names of the parameters that they are for, and their
// elements.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "train/weights.h"

namespace ct {

std::vector<TensorSpec> weight_specs(const Graph& graph);
/// What a file of weights must have, which may be of any floating-point type; all else must be the model's.
std::vector<TensorSpec> wanted_weights(const std::vector<LogicalTensor>& tensors, const Graph& graph, const Path& path);

/// The tensors of one set, sorted, under the names of their parameters.
std::vector<LogicalTensor> tensors_of_set(const SafetensorsFile& file, WeightSet set);

/// How many batches PyTorch's batch norm has seen, or how many models its AveragedModel: nothing here depends on it.
bool is_counter(std::string_view name);

/// Gives the tensors, which stay sorted, the names that `wanted` has: without what stands before all names, as wrappers
/// of a module leave it ("module." of DataParallel, "_orig_mod." of torch.compile), and in the model's own spelling.
/// Returns that prefix; empty: there is none.
std::string take_wanted_names(std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted);

/// Calls f(first row, elements of whole rows in PyTorch's order), a bucket at a time, for all of rows begin..end.
void each_bucket(const LogicalTensor& tensor, int64_t begin, int64_t end,
                 const std::function<void(int64_t, std::span<const float>)>& f);
/// Error(checkpoint) of an element of a bucket that begins with `row`.
[[noreturn]] void refuse_element(const LogicalTensor& tensor, int64_t row, size_t element, const std::string& why);

}  // namespace ct
