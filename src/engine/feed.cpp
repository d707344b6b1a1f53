#include "engine/feed.h"

namespace ct {
namespace {

size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.shape.stored()) * size_of(t.dtype); }

}  // namespace

InputFeed::InputFeed(Backend& backend, const BoundProgram& bound)
    : backend_(backend), bound_(bound), block_(bound.tensor(bound.lowered().ports.inputs)) {
  if (backend.is_host()) return;
  for (size_t i = 0; i < kInputSlots; ++i)
    slots_.push_back({backend.allocate_host(bytes_of(block_)), backend.make_event()});
}

Inputs InputFeed::next() {
  std::byte* to = block_.data;
  if (!slots_.empty()) {
    slots_[turn_].read->wait();
    to = slots_[turn_].memory.data();
  }
  const auto fill = [&]<class T>(std::span<T>& part, ValueId id) {
    if (id == kNone) return;
    const Tensor value = bound_.tensor(id);
    part = {reinterpret_cast<T*>(to + (value.data - block_.data)),
            static_cast<size_t>(value.shape.numel()) * size_of(value.dtype) / sizeof(T)};
  };
  const Ports& ports = bound_.lowered().ports;
  Inputs in;
  std::span<DropoutKey> key;
  fill(in.images, ports.images);
  fill(in.draws, ports.draws);
  fill(in.labels, ports.labels);
  fill(in.edits, ports.edits);
  fill(in.second_labels, ports.second_labels);
  fill(in.second_shares, ports.second_shares);
  fill(key, ports.dropout_key);
  in.dropout_key = key.data();
  return in;
}

void InputFeed::send() {
  if (slots_.empty()) return;
  backend_.copy(block_.data, slots_[turn_].memory.data(), bytes_of(block_));
  slots_[turn_].read->set();
  turn_ = (turn_ + 1) % slots_.size();
}

OutputLog::OutputLog(Backend& backend, const Tensor& value, Take take)
    : backend_(backend), value_(value.data), bytes_(bytes_of(value)), take_(std::move(take)) {
  if (!backend.is_host()) slots_ = backend.allocate_host(kLogSlots * bytes_);
}

void OutputLog::keep() {
  if (slots_.data() == nullptr) return take_(value_);
  backend_.copy(slots_.data() + kept_ * bytes_, value_, bytes_);
  if (++kept_ == kLogSlots) settle();
}

void OutputLog::settle() {
  if (kept_ == 0) return;
  backend_.wait();
  for (size_t i = 0; i < kept_; ++i) take_(slots_.data() + i * bytes_);
  kept_ = 0;
}

}  // namespace ct
