#include "engine/feed.h"

namespace ct {
namespace {

size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.shape.stored()) * size_of(t.dtype); }

}  // namespace

InputFeed::InputFeed(Backend& backend, const BoundProgram& bound)
    : backend_(backend), bound_(bound), block_(bound.tensor(bound.lowered().ports.inputs)), bytes_(bytes_of(block_)) {
  if (backend.is_host()) return;
  slots_ = backend.allocate_host(kInputSlots * bytes_);
  for (size_t i = 0; i < kInputSlots; ++i) read_.push_back(backend.make_event());
  fetch_ = backend.ring_copy({block_.data, slots_.data(), bytes_, kInputSlots, RingCopy::To::value});
}

Inputs InputFeed::next() {
  std::byte* to = block_.data;
  if (!read_.empty()) {
    read_[turn_]->wait();
    to = slots_.data() + turn_ * bytes_;
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
  if (ports.index == kNone) fill(in.images, ports.images);
  fill(in.index, ports.index);
  fill(in.draws, ports.draws);
  fill(in.labels, ports.labels);
  fill(in.edits, ports.edits);
  fill(in.second_labels, ports.second_labels);
  fill(in.second_shares, ports.second_shares);
  fill(in.class_weights, ports.class_weights);
  fill(key, ports.dropout_key);
  in.dropout_key = key.data();
  return in;
}

void InputFeed::send() {
  if (read_.empty() || fetch_) return;
  backend_.copy(block_.data, slots_.data() + turn_ * bytes_, bytes_);
  read_[turn_]->set();
}

void InputFeed::sent() {
  if (read_.empty()) return;
  if (fetch_) read_[turn_]->set();
  turn_ = (turn_ + 1) % kInputSlots;
}

OutputLog::OutputLog(Backend& backend, const Tensor& value, Take take)
    : backend_(backend), value_(value.data), bytes_(bytes_of(value)), take_(std::move(take)) {
  if (backend.is_host()) return;
  slots_ = backend.allocate_host(kLogSlots * bytes_);
  append_ = backend.ring_copy({value_, slots_.data(), bytes_, kLogSlots, RingCopy::To::ring});
}

void OutputLog::keep() {
  if (slots_.data() == nullptr) return take_(value_);
  if (!append_) backend_.copy(slots_.data() + (first_ + kept_) % kLogSlots * bytes_, value_, bytes_);
  if (++kept_ == kLogSlots) settle();
}

void OutputLog::settle() {
  if (kept_ == 0) return;
  backend_.wait();
  for (; kept_ > 0; --kept_, first_ = (first_ + 1) % kLogSlots) take_(slots_.data() + first_ * bytes_);
}

}  // namespace ct
