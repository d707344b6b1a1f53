// Compares the tensors of a file with those of a model: names, shapes and types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/paths.h"
#include "checkpoint/rows.h"
#include "checkpoint/safetensors.h"

namespace ct {

/// The differences between `tensors`, except those that `ignored` accepts, and the wanted ones: lists of layers that
/// differ in length; the first tensors that are missing, unexpected, or of another shape or type; the number of others.
/// Empty: none.
std::string tensor_differences(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted,
                               bool (*ignored)(std::string_view name) = nullptr);

/// Throws Error(checkpoint) for the file or folder `path`; `why`: the consequence and the remedy.
[[noreturn]] void refuse_tensors(const Path& path, const std::string& differences, const std::string& why);

/// Throws Error(checkpoint) unless `tensors`, found in `path`, are the wanted ones.
void require_tensors(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted, const Path& path,
                     bool (*ignored)(std::string_view name) = nullptr);

}  // namespace ct
