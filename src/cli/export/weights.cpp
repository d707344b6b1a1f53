#include "cli/export/weights.h"

#include "base/error.h"
#include "checkpoint/store.h"
#include "checkpoint/weights_hash.h"
#include "train/weights.h"

namespace ct {

ExportedWeights::ExportedWeights(const std::string& checkpoint, const WeightSetOptions& which)
    : file_(weights_file(checkpoint)), set_(which.of(file_)) {
  require_weights(file_);
}

TensorView ExportedWeights::in_f32(const StoredTensor& tensor) {
  if (tensor.dtype == StoredType::f32 || !is_float(tensor.dtype)) return tensor;
  std::vector<float>& values = converted_.emplace_back(tensor.data.size() / size_of(tensor.dtype));
  if (const auto at = to_f32(tensor.dtype, tensor.data, values))
    fail(ExitCode::checkpoint, in_quotes(file_.path().native()), ": tensor ", in_quotes(tensor.name),
         " is too large for f32 at ", place_of(tensor.shape, *at), ": use another file");
  return {tensor.name, StoredType::f32, tensor.shape, std::as_bytes(std::span(values))};
}

std::vector<TensorView> ExportedWeights::tensors() {
  std::vector<TensorView> taken;
  for (StoredTensor tensor : file_.tensors()) {
    const bool average = is_average(file_, tensor.name);
    if (average) tensor.name.resize(tensor.name.size() - kEmaSuffix.size());
    const bool has_average = file_.find(str(tensor.name, kEmaSuffix)) != nullptr;
    if (has_average && average != (set_ == WeightSet::ema)) continue;
    taken.push_back(in_f32(tensor));
  }
  if (taken.empty())
    fail(ExitCode::checkpoint, in_quotes(file_.path().native()), " has no tensors: give a file of weights");
  return taken;
}

}  // namespace ct
