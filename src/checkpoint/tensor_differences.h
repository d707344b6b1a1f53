// What a file has against what a model wants: names, shapes and types of tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/paths.h"
#include "checkpoint/rows.h"
#include "checkpoint/safetensors.h"

namespace ct {

/// How `tensors` are not the wanted ones, whatever else is among them that `ignored` accepts: lists of layers that have
/// another length; the first of those that are missing, of another shape or type, unexpected, and how many more. Empty:
/// they are.
std::string tensor_differences(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted,
                               bool (*ignored)(std::string_view name) = nullptr);

/// Error(checkpoint) of the file or folder `path`; `why`: what that means, and what to do.
[[noreturn]] void refuse_tensors(const Path& path, const std::string& differences, const std::string& why);

/// Error(checkpoint) unless `tensors`, found in `path`, are the wanted ones.
void require_tensors(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted, const Path& path,
                     bool (*ignored)(std::string_view name) = nullptr);

}  // namespace ct
