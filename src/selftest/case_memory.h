// A case in memory: operands between guards, and the prepared operation.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <utility>

#include "selftest/op_cases.h"
#include "selftest/reference/bf16.h"
#include "selftest/reference/f16.h"

namespace ct {

enum class Placement { aligned, off_by_an_element };  // of operands, relative to a multiple of 64 bytes

/// An operand's memory between guards. Guards of read operands are NaN, so that a kernel that uses them gives a wrong
/// result; guards of written operands are finite numbers, so that a copied NaN is visible too.
class Guarded {
 public:
  static constexpr size_t kGuardBytes = 64;
  Guarded(const Value& value, bool written, Placement placement = Placement::aligned)
      : value_(value), guard_(written ? 0xA5 : 0xFF), begin_(kGuardBytes) {
    // Structures (shape_of() in cases/case.h) stay aligned.
    const bool structure = value.dtype == DType::u8 && value.shape.rank() == 1;
    if (placement == Placement::off_by_an_element && !structure) begin_ += size_of(value.dtype);
    bytes_ = static_cast<size_t>(value.shape.stored()) * size_of(value.dtype);
    all_ = static_cast<unsigned char*>(::operator new(size(), std::align_val_t(64)));
  }
  Guarded(Guarded&& other) noexcept
      : value_(other.value_),
        guard_(other.guard_),
        begin_(other.begin_),
        bytes_(other.bytes_),
        all_(std::exchange(other.all_, nullptr)) {}
  ~Guarded() { ::operator delete(all_, std::align_val_t(64)); }

  std::byte* data() const { return reinterpret_cast<std::byte*>(all_ + begin_); }
  std::span<unsigned char> all() const { return {all_, size()}; }
  /// Bytes from the begin of all() to the data.
  size_t begin() const { return begin_; }
  Tensor tensor() const { return {data(), value_.dtype, value_.shape}; }

  /// Fills with dense values and zero pads; without values all bytes are 0xFF.
  void fill(const std::vector<double>& dense) {
    std::memset(all_, guard_, size());
    std::memset(data(), dense.empty() ? 0xFF : 0, bytes_);
    for (size_t i = 0; i < dense.size(); ++i) {
      const size_t at = position(i);
      switch (value_.dtype) {
        case DType::f32:
          reinterpret_cast<float*>(data())[at] = static_cast<float>(dense[i]);
          break;
        case DType::f64:
          reinterpret_cast<double*>(data())[at] = dense[i];
          break;
        case DType::bf16:
          reinterpret_cast<uint16_t*>(data())[at] = reference::to_bf16(dense[i]);
          break;
        case DType::f16:
          reinterpret_cast<uint16_t*>(data())[at] = reference::to_f16(dense[i]);
          break;
        case DType::i32:
          reinterpret_cast<int32_t*>(data())[at] = static_cast<int32_t>(dense[i]);
          break;
        case DType::u8:
          reinterpret_cast<uint8_t*>(data())[at] = static_cast<uint8_t>(dense[i]);
      }
    }
  }
  double element(size_t i) const {
    const size_t at = position(i);
    switch (value_.dtype) {
      case DType::f32:
        return reinterpret_cast<const float*>(data())[at];
      case DType::f64:
        return reinterpret_cast<const double*>(data())[at];
      case DType::bf16:
        return reference::from_bf16(reinterpret_cast<const uint16_t*>(data())[at]);
      case DType::f16:
        return reference::from_f16(reinterpret_cast<const uint16_t*>(data())[at]);
      case DType::i32:
        return reinterpret_cast<const int32_t*>(data())[at];
      case DType::u8:
        return reinterpret_cast<const uint8_t*>(data())[at];
    }
    return 0;
  }
  std::vector<unsigned char> bytes() const { return {all_ + begin_, all_ + begin_ + bytes_}; }
  bool intact() const {
    const auto is_guard = [this](unsigned char c) { return c == guard_; };
    return std::all_of(all_, all_ + begin_, is_guard) && std::all_of(all_ + begin_ + bytes_, all_ + size(), is_guard);
  }
  bool pads_are_zero() const {
    const int64_t row = value_.shape.stride();
    const auto element_bytes = static_cast<int64_t>(size_of(value_.dtype));
    for (int64_t i = 0; i < value_.shape.stored() * element_bytes; ++i)
      if (i / element_bytes % row >= value_.shape.columns() && data()[i] != std::byte(0)) return false;
    return true;
  }

 private:
  size_t size() const { return begin_ + bytes_ + kGuardBytes; }
  size_t position(size_t i) const {
    const auto columns = static_cast<size_t>(value_.shape.columns());
    return i / columns * static_cast<size_t>(value_.shape.stride()) + i % columns;
  }
  Value value_;
  unsigned char guard_;
  size_t begin_, bytes_;
  unsigned char* all_;
};

/// A Guarded in the backend's memory: itself on a host, otherwise a copy with its guards in device memory. An operand
/// that is only read ends at the end of the allocation, so that memory checkers see reads beyond it.
class OnDevice {
 public:
  OnDevice(Backend& backend, const Guarded& host, bool written) : backend_(backend), host_(host) {
    if (backend.is_host()) return;
    const size_t bytes = host.all().size() - (written ? 0 : Guarded::kGuardBytes);
    memory_ = backend.allocate(bytes);
    staging_ = backend.allocate_host(bytes);
  }
  std::byte* data() const { return memory_.data() == nullptr ? host_.data() : memory_.data() + host_.begin(); }
  void upload() {
    if (memory_.data() == nullptr) return;
    std::memcpy(staging_.data(), host_.all().data(), memory_.bytes());
    backend_.copy(memory_.data(), staging_.data(), memory_.bytes());
    backend_.wait();
  }
  void download() {
    if (memory_.data() == nullptr) return;
    backend_.copy(staging_.data(), memory_.data(), memory_.bytes());
    backend_.wait();
    std::memcpy(host_.all().data(), staging_.data(), memory_.bytes());
  }

 private:
  Backend& backend_;
  const Guarded& host_;
  Memory memory_, staging_;
};

/// A case in memory, prepared by a backend.
class CaseInMemory {
 public:
  CaseInMemory(Backend& backend, const OpCase& c, Placement placement = Placement::aligned)
      : backend_(backend), case_(c) {
    std::vector<Value> values;
    std::vector<bool> is_written;
    const Ids written = writes(Op(c.op));
    for (size_t i = 0; i < c.operands.size(); ++i) {
      values.push_back(c.operands[i].value);
      is_written.push_back(std::count(written.begin(), written.end(), static_cast<ValueId>(i)) > 0);
      memory_.emplace_back(c.operands[i].value, is_written.back(), placement);
    }
    kernel_ = backend.prepare(c.op, values);
    workspace_ = std::make_unique<Guarded>(
        Value{.shape = {static_cast<int64_t>(kernel_->workspace_bytes())}, .dtype = DType::u8}, true);
    for (size_t i = 0; i < memory_.size(); ++i) on_device_.emplace_back(backend, memory_[i], is_written[i]);
    on_device_.emplace_back(backend, *workspace_, /*written=*/true);
    kernel_->bind(
        [this](ValueId id) {
          touched_.insert(id);
          Tensor tensor = memory_[static_cast<size_t>(id)].tensor();
          tensor.data = on_device_[static_cast<size_t>(id)].data();
          return tensor;
        },
        on_device_.back().data());
  }
  void launch(const std::vector<double>& workspace = {}) {
    launch_by([this] { only_launch(); }, workspace);
  }
  /// `by` must do what only_launch() does.
  void launch_by(const std::function<void()>& by, const std::vector<double>& workspace = {}) {
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i].fill(case_.operands[i].before);
    workspace_->fill(workspace);
    for (OnDevice& copy : on_device_) copy.upload();
    by();
    for (OnDevice& copy : on_device_) copy.download();
  }
  /// Launches on the backend's memory as the last launch left it.
  void only_launch() { kernel_->launch(); }
  const std::vector<Guarded>& memory() const { return memory_; }
  /// The operands whose addresses the kernel has requested.
  const std::set<ValueId>& touched() const { return touched_; }
  const Guarded& workspace() const { return *workspace_; }
  size_t workspace_bytes() const { return kernel_->workspace_bytes(); }

 private:
  Backend& backend_;
  const OpCase& case_;
  std::vector<Guarded> memory_;
  std::unique_ptr<Guarded> workspace_;
  std::vector<OnDevice> on_device_;  // by operand, then the workspace
  std::set<ValueId> touched_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace ct
