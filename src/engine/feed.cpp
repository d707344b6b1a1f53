#include "engine/feed.h"

#include "base/error.h"

namespace ct {
namespace {

size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.shape.stored()) * size_of(t.dtype); }

}  // namespace

InputFeed::InputFeed(Backend& backend, const BoundProgram& bound) : backend_(backend) {
  const Ports& ports = bound.lowered().ports;
  const Tensor block = bound.tensor(ports.inputs);
  const auto begin_of = [&](ValueId id) { return static_cast<size_t>(bound.tensor(id).data - block.data); };
  check(begin_of(ports.images) == 0, "images are not at the beginning of the inputs");
  block_ = block.data;
  bytes_ = bytes_of(block);
  draws_ = begin_of(ports.draws);
  labels_ = begin_of(ports.labels);
  dropout_key_ = begin_of(ports.dropout_key);
  if (ports.edits != kNone) edits_ = begin_of(ports.edits);
  if (ports.second_labels != kNone) second_labels_ = begin_of(ports.second_labels);
  if (ports.second_shares != kNone) second_shares_ = begin_of(ports.second_shares);
  if (backend.is_host()) return;
  for (size_t i = 0; i < kInputSlots; ++i) slots_.push_back({backend.allocate_host(bytes_), backend.make_event()});
}

Inputs InputFeed::next() {
  std::byte* to = block_;
  if (!slots_.empty()) {
    slots_[turn_].read->wait();
    to = slots_[turn_].memory.data();
  }
  const auto at = [to](const std::optional<size_t>& begin) { return begin ? to + *begin : nullptr; };
  return {reinterpret_cast<uint8_t*>(to),
          reinterpret_cast<int32_t*>(to + draws_),
          reinterpret_cast<int32_t*>(to + labels_),
          reinterpret_cast<DropoutKey*>(to + dropout_key_),
          reinterpret_cast<EditDraw*>(at(edits_)),
          reinterpret_cast<int32_t*>(at(second_labels_)),
          reinterpret_cast<float*>(at(second_shares_))};
}

void InputFeed::send() {
  if (slots_.empty()) return;
  backend_.copy(block_, slots_[turn_].memory.data(), bytes_);
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
