#include "device/cuda/offload.h"

#include <algorithm>
#include <concepts>
#include <map>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "device/cuda/cuda_backend.h"
#include "plan/program.h"
#include "plan/step_scalars.h"

namespace ct::cuda {
namespace {

ValueId gradients_of(const UpdateSlice& slice) { return slice.grads; }
ValueId gradients_of(const Blend::Slice& slice) { return slice.sums; }

/// The parts of an update of one slice, whatever its kind.
struct UpdateOperands {
  ValueId masters = kNone, grads = kNone, copy = kNone, scalars = kNone, ratios = kNone;
};
UpdateOperands operands(const ComputeOp& op) {
  return std::visit(
      [](const auto& o) -> UpdateOperands {
        using Op = std::decay_t<decltype(o)>;
        if constexpr (std::derived_from<Op, Update>)
          return {o.slices[0].masters, gradients_of(o.slices[0]), o.slices[0].copy, o.scalars, o.ratios};
        else if constexpr (requires { o.slices[0].copy; })
          return {o.slices[0].masters, gradients_of(o.slices[0]), o.slices[0].copy, o.scalars};
        else if constexpr (std::is_same_v<Op, Cast>)
          return {.masters = o.x, .copy = o.y};
        else
          fail(ExitCode::bug, "internal error: ", Op::kName, " uses host memory but is no update");
      },
      op);
}

/// An update of one slice without its copy.
ComputeOp without_copy(ComputeOp op) {
  std::visit(
      [](auto& o) {
        if constexpr (requires { o.slices[0].copy; }) o.slices[0].copy = kNone;
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

/// Host memory for a slice under way; two take turns.
struct Offload::Slot {
  Memory grads, scalars, copy;
  std::unique_ptr<Event> arrived, sent;  // what comes from the device, the copy that goes there
};

/// The update of one slice.
class Offload::Update {
 public:
  Update(Offload& offload, const ComputeOp& op, const std::vector<Value>& values)
      : offload_(offload), backend_(offload.backend_), ids_(operands(op)) {
    const auto value = [&](ValueId id) -> const Value& { return values[static_cast<size_t>(id)]; };
    const int64_t n = value(ids_.masters).shape.numel();
    const DType type = value(ids_.copy).dtype;
    grads_bytes_ = static_cast<size_t>(n) * sizeof(float);
    copy_bytes_ = static_cast<size_t>(n) * size_of(type);
    if (type != DType::f32) cast_ = offload.cpu_->prepare(Cast{ids_.masters, ids_.copy}, values);
    offload_.largest_ = std::max(offload_.largest_, n);
    if (ids_.grads == kNone) return;  // nothing to update, only to copy
    update_ = offload.cpu_->prepare(without_copy(op), values);
    scalars_bytes_ = static_cast<size_t>(stored_bytes(value(ids_.scalars)));
    if (ids_.ratios != kNone)
      ratios_here_ = backend_.allocate_host(static_cast<size_t>(stored_bytes(value(ids_.ratios))));
  }
  ~Update() { std::erase(offload_.updates_, this); }

  void bind(const Resolve& resolve) {
    slot_ = offload_.next_slot();
    masters_ = resolve(ids_.masters).data;
    copy_ = resolve(ids_.copy).data;
    const Resolve on_host = [&](ValueId id) {
      Tensor tensor = resolve(id);
      if (id == ids_.grads) tensor.data = slot_->grads.data();
      if (id == ids_.scalars) tensor.data = slot_->scalars.data();
      if (id == ids_.copy) tensor.data = slot_->copy.data();
      if (id == ids_.ratios) tensor.data = ratios_here_.data();
      return tensor;
    };
    if (cast_) cast_->bind(on_host, nullptr);
    if (!update_) return;
    grads_ = resolve(ids_.grads).data;
    scalars_ = resolve(ids_.scalars).data;
    if (ids_.ratios != kNone) ratios_ = resolve(ids_.ratios).data;
    update_->bind(on_host, nullptr);
    offload_.updates_.push_back(this);
  }

  void launch() {
    if (update_) {
      fetch();
      if (Update* next = following()) next->fetch();
      slot_->arrived->wait();
      update_->launch();
      fetched_ = false;
    }
    if (!cast_) return backend_.copy(copy_, masters_, copy_bytes_);
    // By itself, although the update could do it: a skipped one writes nothing, and the slot held another slice.
    slot_->sent->wait();
    cast_->launch();
    backend_.copy(copy_, slot_->copy.data(), copy_bytes_);
    slot_->sent->set();
  }

 private:
  /// Asks for gradients and scalars, unless that is done.
  void fetch() {
    if (std::exchange(fetched_, true)) return;
    backend_.copy(slot_->grads.data(), grads_, grads_bytes_);
    backend_.copy(slot_->scalars.data(), scalars_, scalars_bytes_);
    if (ratios_ != nullptr) backend_.copy(ratios_here_.data(), ratios_, ratios_here_.bytes());
    slot_->arrived->set();
  }
  /// The update after this one in the program; none after the last.
  Update* following() const {
    const auto& all = offload_.updates_;
    const auto at = std::find(all.begin(), all.end(), this);
    return at == all.end() || at + 1 == all.end() ? nullptr : *(at + 1);
  }

  Offload& offload_;
  CudaBackend& backend_;
  UpdateOperands ids_;
  Memory ratios_here_;
  size_t grads_bytes_, copy_bytes_, scalars_bytes_ = 0;
  std::unique_ptr<Kernel> update_, cast_;  // of the host
  std::shared_ptr<Slot> slot_;
  std::byte* masters_ = nullptr;                                                           // of the host
  std::byte *grads_ = nullptr, *scalars_ = nullptr, *copy_ = nullptr, *ratios_ = nullptr;  // of the device
  bool fetched_ = false;
};

/// The updates of one operation.
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

/// Any other operation: what it has on the device comes here whole before it, and goes back whole after it.
class Offload::Staged final : public Kernel {
 public:
  Staged(Offload& offload, const ComputeOp& op, const std::vector<Value>& values)
      : backend_(offload.backend_),
        read_(reads(op)),
        written_(writes(op)),
        kernel_(offload.cpu_->prepare(op, values)),
        arrived_(backend_.make_event()) {
    for (const Ids& ids : {read_, written_})
      for (const ValueId id : ids)
        if (values[static_cast<size_t>(origin(values, id).value)].space != MemorySpace::host && !here_.contains(id))
          here_.emplace(id, backend_.allocate_host(static_cast<size_t>(stored_bytes(values[static_cast<size_t>(id)]))));
  }
  void bind(const Resolve& resolve, std::byte*) override {
    for (const auto& [id, memory] : here_) there_[id] = resolve(id).data;
    kernel_->bind(
        [&](ValueId id) {
          Tensor tensor = resolve(id);
          if (const auto staged = here_.find(id); staged != here_.end()) tensor.data = staged->second.data();
          return tensor;
        },
        nullptr);
  }
  void launch() override {
    for (const ValueId id : read_)
      if (const auto staged = here_.find(id); staged != here_.end())
        backend_.copy(staged->second.data(), there_[id], staged->second.bytes());
    arrived_->set();
    arrived_->wait();  // what went back the last time has gone too
    kernel_->launch();
    for (const ValueId id : written_)
      if (const auto staged = here_.find(id); staged != here_.end())
        backend_.copy(there_[id], staged->second.data(), staged->second.bytes());
  }
  bool recordable() const override { return false; }

 private:
  CudaBackend& backend_;
  Ids read_, written_;
  std::unique_ptr<Kernel> kernel_;  // of the host
  std::unique_ptr<Event> arrived_;
  std::map<ValueId, Memory> here_;
  std::map<ValueId, std::byte*> there_;
};

Offload::Offload(CudaBackend& backend)
    : backend_(backend), cpu_(make_cpu_backend({.memory_advice = "do without offload_optimizer"})) {}
Offload::~Offload() = default;

std::shared_ptr<Offload::Slot> Offload::next_slot() {
  std::shared_ptr<Slot>& slot = slots_[turn_++ % slots_.size()];
  const OffloadSlotBytes bytes(largest_);
  if (!slot || slot->grads.bytes() < bytes.grads)
    slot = std::make_shared<Slot>(Slot{.grads = backend_.allocate_host(bytes.grads),
                                       .scalars = backend_.allocate_host(bytes.scalars),
                                       .copy = backend_.allocate_host(bytes.copy),
                                       .arrived = backend_.make_event(),
                                       .sent = backend_.make_event()});
  return slot;
}

bool Offload::wants(const ComputeOp& op, const std::vector<Value>& values) {
  const Ids read = reads(op);
  return std::any_of(read.begin(), read.end(), [&](ValueId id) {
    return values[static_cast<size_t>(origin(values, id).value)].space == MemorySpace::host;
  });
}

std::unique_ptr<Kernel> Offload::prepare(const ComputeOp& op, const std::vector<Value>& values) {
  if (!updates_a_copy(op)) return std::make_unique<Staged>(*this, op, values);
  std::vector<std::unique_ptr<Update>> slices;
  for (const ComputeOp& slice : apart(op)) {
    check(operands(slice).copy != kNone, "an update on the host without a copy on the device");
    slices.push_back(std::make_unique<Update>(*this, slice, values));
  }
  return std::make_unique<Updates>(std::move(slices));
}

}  // namespace ct::cuda
