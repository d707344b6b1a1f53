#include "device/cuda/offload.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "device/cuda/cuda_backend.h"
#include "device/cuda/cuda_kernel.h"
#include "kernels/elementwise.h"
#include "plan/program.h"

namespace ct::cuda {
namespace {

/// What the host reads of a device's value, or the other way round.
struct Passage {
  std::byte* device = nullptr;
  Memory host;
  size_t bytes = 0;
};

/// The parts of an update of one slice, whatever its kind.
struct Operands4 {
  ValueId masters = kNone, grads = kNone, copy = kNone, scalars = kNone;
};
Operands4 operands(const ComputeOp& op) {
  return std::visit(
      [](const auto& o) -> Operands4 {
        using Op = std::decay_t<decltype(o)>;
        if constexpr (std::is_same_v<Op, Adam> || std::is_same_v<Op, Sgd>)
          return {o.slices[0].masters, o.slices[0].grads, o.slices[0].copy, o.scalars};
        else if constexpr (std::is_same_v<Op, Blend>)
          return {o.slices[0].masters, o.slices[0].sums, o.slices[0].copy, o.scalars};
        else if constexpr (std::is_same_v<Op, Cast>)
          return {.masters = o.x, .copy = o.y};
        else
          return {};
      },
      op);
}

/// The same update without a copy: that is made on the device.
ComputeOp on_host_alone(ComputeOp op) {
  std::visit(
      [](auto& o) {
        if constexpr (requires { o.slices; }) o.slices[0].copy = kNone;
      },
      op);
  return op;
}

/// An update of many slices as updates of one each.
std::vector<ComputeOp> apart(const ComputeOp& op) {
  return std::visit(
      [](const auto& o) {
        std::vector<ComputeOp> ops;
        if constexpr (requires { o.slices; }) {
          for (const auto& slice : o.slices) {
            auto one = o;
            one.slices = {slice};
            ops.push_back(std::move(one));
          }
        } else {
          ops.push_back(o);
        }
        return ops;
      },
      op);
}

}  // namespace

/// Of one slice.
class Offload::Update {
 public:
  Update(Offload& offload, const ComputeOp& op, const std::vector<Value>& values)
      : offload_(offload), backend_(offload.backend_), ids_(operands(op)) {
    const auto value = [&](ValueId id) -> const Value& { return values[static_cast<size_t>(id)]; };
    n_ = value(ids_.masters).shape.numel();
    type_ = type_of(value(ids_.copy).dtype);
    if (ids_.grads == kNone) return;  // a cast: nothing for the host to do
    host_ = offload.cpu_->prepare(on_host_alone(op), values);
    grads_.bytes = static_cast<size_t>(n_) * sizeof(float);
    scalars_.bytes = static_cast<size_t>(stored_bytes(value(ids_.scalars)));
  }
  ~Update() { std::erase(offload_.updates_, this); }

  void bind(const Resolve& resolve) {
    masters_ = resolve(ids_.masters).data;
    copy_ = resolve(ids_.copy).data;
    if (type_ != kernels::Type::f32) scratch_ = backend_.allocate(static_cast<size_t>(n_) * sizeof(float));
    if (!host_) return;
    for (auto [passage, id] : {std::pair{&grads_, ids_.grads}, {&scalars_, ids_.scalars}}) {
      passage->device = resolve(id).data;
      passage->host = backend_.allocate_host(passage->bytes);
    }
    arrived_ = backend_.make_mark();
    host_->bind(
        [&](ValueId id) {
          Tensor tensor = resolve(id);
          if (id == ids_.grads) tensor.data = grads_.host.data();
          if (id == ids_.scalars) tensor.data = scalars_.host.data();
          return tensor;
        },
        nullptr);
    offload_.updates_.push_back(this);
  }

  void launch() {
    if (host_) {
      fetch();
      if (Update* next = following()) next->fetch();
      arrived_->wait();
      host_->launch();
      fetched_ = false;
    }
    const size_t bytes = static_cast<size_t>(n_) * sizeof(float);
    if (type_ == kernels::Type::f32) return backend_.copy(copy_, masters_, bytes);
    backend_.copy(scratch_.data(), masters_, bytes);
    CT_CUDA(kernels::cast({.from = kernels::Type::f32, .to = type_, .n = n_, .x = scratch_.data(), .y = copy_},
                          backend_.stream()));
  }

 private:
  /// Asks for gradients and scalars, unless that is done.
  void fetch() {
    if (std::exchange(fetched_, true)) return;
    backend_.copy(grads_.host.data(), grads_.device, grads_.bytes);
    backend_.copy(scalars_.host.data(), scalars_.device, scalars_.bytes);
    arrived_->set();
  }
  /// The update after this one in the program; none after the last.
  Update* following() const {
    const auto& all = offload_.updates_;
    const auto at = std::find(all.begin(), all.end(), this);
    return at == all.end() || at + 1 == all.end() ? nullptr : *(at + 1);
  }

  Offload& offload_;
  CudaBackend& backend_;
  Operands4 ids_;
  int64_t n_;
  kernels::Type type_;
  std::unique_ptr<Kernel> host_;
  std::byte *masters_ = nullptr, *copy_ = nullptr;
  Memory scratch_;  // masters on their way to another type
  Passage grads_, scalars_;
  std::unique_ptr<Mark> arrived_;
  bool fetched_ = false;
};

/// One operation.
class Offload::Updates final : public Kernel {
 public:
  explicit Updates(std::vector<std::unique_ptr<Update>> slices) : slices_(std::move(slices)) {}
  void bind(const Resolve& resolve, std::byte*) override {
    for (const auto& slice : slices_) slice->bind(resolve);
  }
  void launch() override {
    for (const auto& slice : slices_) slice->launch();
  }
  bool recordable() const override { return false; }

 private:
  std::vector<std::unique_ptr<Update>> slices_;
};

Offload::Offload(CudaBackend& backend) : backend_(backend), cpu_(make_cpu_backend()) {}
Offload::~Offload() = default;

bool Offload::wants(const ComputeOp& op, const std::vector<Value>& values) {
  const ValueId masters = operands(op).masters;
  if (masters == kNone) return false;
  return values[static_cast<size_t>(origin(values, masters).value)].home == Home::host;
}

std::unique_ptr<Kernel> Offload::prepare(const ComputeOp& op, const std::vector<Value>& values) {
  std::vector<std::unique_ptr<Update>> slices;
  for (const ComputeOp& slice : apart(op)) {
    check(operands(slice).copy != kNone, "an update on the host without a copy on the device");
    slices.push_back(std::make_unique<Update>(*this, slice, values));
  }
  return std::make_unique<Updates>(std::move(slices));
}

}  // namespace ct::cuda
