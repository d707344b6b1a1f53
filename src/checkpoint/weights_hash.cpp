#include "checkpoint/weights_hash.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"

namespace ct {
namespace {

template <class Tensor>
void sort_by_name(std::vector<Tensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
}

}  // namespace

std::string weights_sha256(std::vector<TensorView> weights) {
  sort_by_name(weights);
  Sha256 hash;
  for (const TensorView& t : weights) {
    if (t.name.ends_with("num_batches_tracked")) continue;
    if (t.dtype != StoredType::f32) {
      fail(ExitCode::checkpoint, "weights_sha256 is defined on F32, tensor ", in_quotes(t.name), " is ", describe(t));
    }
    hash.update(t.data.data(), t.data.size());
  }
  return hash.hex();
}

std::string state_sha256(std::vector<LogicalTensor> tensors, const nlohmann::json& state) {
  sort_by_name(tensors);
  Sha256 hash;
  const auto add = [&hash](const std::string& text) {  // with its terminating zero, so that joined texts differ
    hash.update(text.c_str(), text.size() + 1);
  };
  for (const LogicalTensor& t : tensors) {
    add(t.name);
    add(describe({t.name, t.dtype, t.shape, {}}));
    for (const LogicalTensor::Piece& piece : t.pieces)
      hash.update(piece.stored->data.data(), piece.stored->data.size());
  }
  add(state.dump());
  return hash.hex();
}

}  // namespace ct
