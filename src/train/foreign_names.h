// Names that other programs give a network's tensors: behind a prefix, or as another version of a package spells them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/rows.h"

namespace ct {

/// How many batches PyTorch's batch norm has seen, or how many models its AveragedModel: nothing here depends on it.
bool is_counter(std::string_view name);

/// Gives the tensors, which stay sorted, the names that `wanted` has: without what stands before all names, as wrappers
/// of a module leave it ("module." of DataParallel, "_orig_mod." of torch.compile), and in the model's own spelling.
/// Returns that prefix; empty: there is none.
std::string take_wanted_names(std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted);

}  // namespace ct
