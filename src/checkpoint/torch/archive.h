// Files of torch.save(), since PyTorch 1.6: a zip archive with a pickle of the object and a file for the elements of
// each storage. Older files are a pickle alone, which checkpoint/foreign.cpp names.
#pragma once

#include <span>
#include <vector>

#include "base/files.h"
#include "checkpoint/tensors.h"

namespace ct {

/// Is it such an archive? Decided by its beginning and the name of its pickle.
bool is_torch_archive(std::span<const std::byte> file);

/// The tensors of the state_dict in it, whose data lie in `file`: those of the saved dict itself, or else of the first
/// of its entries "model_state_dict", "state_dict", "model_state", "model", "module" (DeepSpeed's) and "net" that has
/// tensors; other entries are left out. No code of the file is run. Error(checkpoint) that names `path` and the tensor:
/// a damaged file; no state_dict; a whole model; a tensor whose elements are not those of one block. Where such a block
/// has another order than the shape's (memory_format=torch.channels_last), a copy in that order is added to `copies`.
std::vector<TensorView> tensors_of_torch_archive(std::span<const std::byte> file, const Path& path,
                                                 std::vector<std::vector<std::byte>>& copies);

}  // namespace ct
