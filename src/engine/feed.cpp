#include "engine/feed.h"

#include <algorithm>

#include "base/error.h"

namespace ct {
namespace {

constexpr size_t kRowSteps = 64;           // steps whose rows travel together
constexpr size_t kMostRowBytes = 4 << 20;  // of these rows
constexpr size_t kTurnBytes = 64;          // before the rows: the number of the next one, and padding

size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.shape.stored()) * size_of(t.dtype); }

/// 1: micro-batches travel one by one.
size_t rows_of(const LoweredProgram& program) {
  const auto bytes = static_cast<size_t>(stored_bytes(program[program.ports.inputs]));
  if (program.ports.index == kNone || bytes > kMostRingBytes) return 1;
  return std::min(kRowSteps * static_cast<size_t>(program.distribution.accumulation), kMostRowBytes / bytes);
}

/// Do micro-batches travel beside the device's other work? In evaluation the host waits for each.
bool travels_beside(const LoweredProgram& program) {
  const auto bytes = static_cast<size_t>(stored_bytes(program[program.ports.inputs]));
  return bytes > kMostRingBytes && !program.update.empty();
}

size_t slot_bytes(size_t rows, size_t bytes) { return rows > 1 ? kTurnBytes + rows * bytes : bytes; }
size_t slots_of(size_t rows) { return rows > 1 ? 1 : kInputSlots; }

}  // namespace

int64_t InputFeed::host_bytes(const LoweredProgram& program) {
  const size_t rows = rows_of(program);
  const auto bytes = static_cast<size_t>(stored_bytes(program[program.ports.inputs]));
  return static_cast<int64_t>(slots_of(rows) * slot_bytes(rows, bytes));
}

int64_t InputFeed::device_bytes(const LoweredProgram& program) {
  if (travels_beside(program)) return 2 * stored_bytes(program[program.ports.inputs]);
  return rows_of(program) > 1 ? host_bytes(program) : 0;
}

InputFeed::InputFeed(Backend& backend, const BoundProgram& bound)
    : backend_(backend), bound_(bound), block_(bound.tensor(bound.lowered().ports.inputs)), bytes_(bytes_of(block_)) {
  if (backend.is_host()) return;
  rows_ = rows_of(bound.lowered());
  const size_t slots = slots_of(rows_), bytes = slot_bytes(rows_, bytes_);
  slots_ = backend.allocate_host(slots * bytes);
  if (travels_beside(bound.lowered())) uploads_ = backend.make_uploads(block_.data, bytes_);
  for (size_t i = 0; i < (rows_ > 1 ? kRowsInFlight : slots); ++i)
    read_.push_back(uploads_ ? uploads_->make_event() : backend.make_event());
  if (bytes_ > kMostRingBytes) return;
  on_device_ = backend.allocate(rows_ > 1 ? bytes : kTurnBytes);
  copy_ = {block_.data,        slots_.data(), bytes_, slots, reinterpret_cast<int32_t*>(on_device_.data()),
           RingCopy::To::value};
  if (rows_ > 1) {
    copied_ = backend.make_event();
    copy_->ring = on_device_.data() + kTurnBytes;
    copy_->slots = rows_;
  }
  fetch_ = backend.ring_copies({*copy_});
}

/// Behind the last row comes the first again, which nothing reads: rows that are sent are fetched anew.
std::vector<RingCopy> InputFeed::fetch_next() const {
  return rows_ > 1 && copy_ ? std::vector{*copy_} : std::vector<RingCopy>();
}

/// Where the host writes.
std::byte* InputFeed::place(size_t ahead) {
  check(ahead < rows_, "no place for a micro-batch ", ahead, " ahead");
  if (slots_.data() == nullptr) return block_.data;
  if (rows_ == 1) {
    read_[turn_]->wait();
    return slots_.data() + turn_ * bytes_;
  }
  if (sent_) {
    check(ahead == 0, "rows that do not begin with the next micro-batch's");
    copied_->wait();
    sent_ = false;
    written_ = left_ = 0;
  }
  written_ = std::max(written_, ahead + 1);
  return slots_.data() + kTurnBytes + ahead * bytes_;
}

Inputs InputFeed::next(int64_t ahead) {
  std::byte* const to = place(static_cast<size_t>(ahead));
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

/// The rows' copy also sets the number of the next row to the first one, which is fetched at once.
void InputFeed::send() {
  if (read_.empty()) return;
  if (rows_ > 1) {
    if (!sent_ || left_ == 0) {
      backend_.copy(on_device_.data(), slots_.data(), kTurnBytes + written_ * bytes_);
      copied_->set();
      fetch_();
      sent_ = true;
      left_ = written_;
    }
    read_[turn_]->wait();
  } else if (!fetch_) {
    const std::byte* const slot = slots_.data() + turn_ * bytes_;
    if (uploads_)
      uploads_->bring(slot);
    else
      backend_.copy(block_.data, slot, bytes_);
    read_[turn_]->set();
  }
}

void InputFeed::sent(int64_t micro_batches) {
  if (read_.empty()) return;
  if (fetch_) read_[turn_]->set();
  if (rows_ > 1) left_ -= static_cast<size_t>(micro_batches);
  turn_ = (turn_ + 1) % read_.size();
}

OutputLog::OutputLog(Backend& backend, const Tensor& value, Take take)
    : backend_(backend), value_(value.data), bytes_(bytes_of(value)), take_(std::move(take)) {
  if (backend.is_host()) return;
  slots_ = backend.allocate_host(kLogSlots * bytes_);
  if (bytes_ <= kMostRingBytes) device_turn_ = backend.allocate(sizeof(int32_t));
}

std::vector<RingCopy> OutputLog::append() const {
  if (device_turn_.data() == nullptr) return {};
  return {
      {value_, slots_.data(), bytes_, kLogSlots, reinterpret_cast<int32_t*>(device_turn_.data()), RingCopy::To::ring}};
}

void OutputLog::reserve(int64_t values) {
  if (kept_ + static_cast<size_t>(values) > kLogSlots) settle();
}

void OutputLog::keep() {
  if (slots_.data() == nullptr) return take_(value_);
  if (device_turn_.data() == nullptr)
    backend_.copy(slots_.data() + (first_ + kept_) % kLogSlots * bytes_, value_, bytes_);
  if (++kept_ == kLogSlots) settle();
}

void OutputLog::settle() {
  if (kept_ == 0) return;
  backend_.wait();
  for (; kept_ > 0; --kept_, first_ = (first_ + 1) % kLogSlots) take_(slots_.data() + first_ * bytes_);
}

}  // namespace ct
