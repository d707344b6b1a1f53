#include "device/cpu/in_f32.h"

#include <algorithm>

#include "device/cpu/kernels/plain.h"

namespace ct::cpu {
namespace {

class InF32 final : public Kernel {
 public:
  InF32(const ComputeOp& op, std::vector<Value> values, ConvolutionAlgorithms& convolutions) {
    const Ids read = reads(Op(op)), written = writes(Op(op));
    Ids all = read;
    all.insert(all.end(), written.begin(), written.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (ValueId id : all) {
      Value& value = values[static_cast<size_t>(id)];
      if (value.dtype != DType::bf16) continue;
      value.dtype = DType::f32;
      const auto is_in = [id](const Ids& ids) { return std::count(ids.begin(), ids.end(), id) > 0; };
      copies_.push_back({.id = id, .numel = value.shape.stored(), .in = is_in(read), .out = is_in(written)});
    }
    kernel_ = std::visit([&](const auto& kind) { return prepare(kind, Shapes(values, convolutions)); }, op);
  }
  size_t workspace_bytes() const override {
    size_t bytes = kernel_->workspace_bytes();
    for (const Copy& copy : copies_) bytes = round_up(bytes, kLine) + room(copy);
    return bytes;
  }
  void bind(const Resolve& operands, std::byte* workspace) override {
    size_t at = kernel_->workspace_bytes();
    for (Copy& copy : copies_) {
      at = round_up(at, kLine);
      copy.bf16 = operands(copy.id).as<uint16_t>();
      copy.f32 = reinterpret_cast<float*>(workspace + at);
      at += room(copy);
    }
    const Resolve in_f32 = [&](ValueId id) {
      Tensor tensor = operands(id);
      for (const Copy& copy : copies_)
        if (copy.id == id) tensor.data = reinterpret_cast<std::byte*>(copy.f32), tensor.dtype = DType::f32;
      return tensor;
    };
    kernel_->bind(in_f32, workspace);
  }
  void launch() override {
    for (const Copy& copy : copies_)
      if (copy.in) convert(copy.bf16, copy.f32, copy.numel);
    kernel_->launch();
    for (const Copy& copy : copies_)
      if (copy.out) convert(copy.f32, copy.bf16, copy.numel);
  }

 private:
  struct Copy {
    ValueId id;
    int64_t numel;
    bool in, out;
    uint16_t* bf16 = nullptr;
    float* f32 = nullptr;
  };
  static constexpr size_t kLine = 64;
  static size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }
  /// Bytes of a copy with the line after its end, which vector loads may touch.
  static size_t room(const Copy& copy) { return static_cast<size_t>(copy.numel) * sizeof(float) + kLine; }

  std::vector<Copy> copies_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> prepare_in_f32(const ComputeOp& op, const std::vector<Value>& values,
                                       ConvolutionAlgorithms& convolutions) {
  return std::make_unique<InF32>(op, values, convolutions);
}

}  // namespace ct::cpu
