#include "engine/feed.h"

#include "base/error.h"

namespace ct {
namespace {

constexpr size_t kInputSlots = 4;
constexpr size_t kLogSlots = 256;

size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.shape.stored()) * size_of(t.dtype); }
/// In a slot, so that each begins on a cache line.
size_t room_of(const Tensor& t) { return static_cast<size_t>(round_up(static_cast<int64_t>(bytes_of(t)), 64)); }

}  // namespace

InputFeed::InputFeed(Backend& backend, const BoundProgram& bound) : backend_(backend) {
  const Ports& ports = bound.lowered().ports;
  size_t bytes = 0;
  for (ValueId id : {ports.images, ports.draws, ports.labels}) {
    inputs_.push_back(bound.tensor(id));
    bytes += room_of(inputs_.back());
  }
  if (backend.is_host()) return;
  for (size_t i = 0; i < kInputSlots; ++i) slots_.push_back({backend.allocate_host(bytes), backend.make_mark()});
}

Inputs InputFeed::inside(std::byte* slot) const {
  std::byte* draws = slot + room_of(inputs_[0]);
  return {reinterpret_cast<uint8_t*>(slot), reinterpret_cast<int32_t*>(draws),
          reinterpret_cast<int32_t*>(draws + room_of(inputs_[1]))};
}

Inputs InputFeed::next() {
  if (slots_.empty()) return {inputs_[0].as<uint8_t>(), inputs_[1].as<int32_t>(), inputs_[2].as<int32_t>()};
  slots_[turn_].read->wait();
  return inside(slots_[turn_].memory.data());
}

void InputFeed::send() {
  if (slots_.empty()) return;
  const std::byte* from = slots_[turn_].memory.data();
  for (const Tensor& input : inputs_) {
    backend_.copy(input.data, from, bytes_of(input));
    from += room_of(input);
  }
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
