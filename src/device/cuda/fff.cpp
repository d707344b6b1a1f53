#include "kernels/fff.h"

#include <algorithm>
#include <array>
#include <utility>

#include "device/cuda/one_launch.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

/// A whole layer by all units, of which those that are not visited are masked: on a GPU two products take less time
/// than a way for each row.
class DenseFff final : public Kernel {
 public:
  DenseFff(const Fff& op, const Context& in) {
    std::vector<Value> values = in.values();
    Shape wide = in.shape(op.x);
    wide[wide.rank() - 1] = op.trees.width();
    const DType dtype = in.dtype(op.x);
    for (const char* name : {".sums", ".visited"}) {
      own_.emplace_back(static_cast<ValueId>(values.size()), Tensor{nullptr, dtype, wide});
      values.push_back({.name = in[op.y].name + name, .shape = wide, .dtype = dtype});
    }
    const ValueId sums = own_[0].first, visited = own_[1].first;
    own_bytes_ = room(static_cast<size_t>(wide.stored()) * size_of(dtype));
    kernels_ = {in.backend.prepare(Linear{op.x, op.w_in, op.b_in, sums}, values),
                in.backend.prepare(TreeGelu{sums, visited, op.trees}, values),
                in.backend.prepare(Linear{visited, op.w_out, kNone, op.y}, values)};
  }
  size_t workspace_bytes() const override {
    size_t theirs = 0;
    for (const auto& kernel : kernels_) theirs = std::max(theirs, kernel->workspace_bytes());
    return kAlign + own_.size() * own_bytes_ + theirs;
  }
  void bind(const Resolve& operands, std::byte* workspace) override {
    std::byte* at = reinterpret_cast<std::byte*>(room(reinterpret_cast<uintptr_t>(workspace)));
    for (auto& [id, tensor] : own_) tensor.data = std::exchange(at, at + own_bytes_);
    const Resolve with_own = [&](ValueId id) {
      for (const auto& [own, tensor] : own_)
        if (own == id) return tensor;
      return operands(id);
    };
    for (const auto& kernel : kernels_) kernel->bind(with_own, at);
  }
  void launch() override {
    for (const auto& kernel : kernels_) kernel->launch();
  }

 private:
  static constexpr size_t kAlign = 256;
  static size_t room(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

  std::vector<std::pair<ValueId, Tensor>> own_;  // what lies in the workspace
  size_t own_bytes_ = 0;                         // of each
  std::array<std::unique_ptr<Kernel>, 3> kernels_;
};

/// Of TreeGelu and its gradient.
template <class Args, class Op>
Args tree_args(const Op& op, const Context& in) {
  const Shape& x = in.shape(op.x);
  return {.type = type_of(in.dtype(op.x)), .rows = x.rows(), .stride = x.stride(), .trees = op.trees};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const TreeGelu& op, const Context& in) {
  return one_launch(in, k::tree_gelu, op, tree_args<k::TreeGeluArgs>(op, in));
}
std::unique_ptr<Kernel> prepare(const TreeGeluGrad& op, const Context& in) {
  return one_launch(in, k::tree_gelu_grad, op, tree_args<k::TreeGeluGradArgs>(op, in));
}
std::unique_ptr<Kernel> prepare(const Fff& op, const Context& in) { return std::make_unique<DenseFff>(op, in); }

}  // namespace ct::cuda
