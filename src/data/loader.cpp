#include "data/loader.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/cores.h"

namespace ct {
namespace {

/// Two micro-batches ahead, and as many more as it takes to keep every worker busy.
size_t ring_size(int64_t batch, int workers) { return static_cast<size_t>(2 + (workers - 1) / batch); }

}  // namespace

int64_t read_sample(const DataSet& set, const SampleList& list, size_t i, uint8_t* to) {
  const uint32_t image = list.images[i];
  const SampleKey key = list.key_of(i);
  if (set.read(image, key, to)) return image;
  if (list.others.empty()) return kLeftOut;
  constexpr int kMost = 100;
  Random draws = draws_of(key, image, kReplacementPlace);
  for (int tries = 0; tries < kMost; ++tries) {
    const uint32_t other = list.others[draws.below(static_cast<uint32_t>(list.others.size()))];
    if (set.read(other, key, to)) return other;
  }
  fail(ExitCode::data, set.name(), ": ", kMost,
       " images drawn to replace a damaged one are all damaged; check the set "
       "with: cifar-train data verify");
}

int loader_workers(int64_t asked, int ranks) {
  constexpr int kMost = 8;
  return asked > 0 ? static_cast<int>(asked) : std::clamp(available_cores() / ranks, 1, kMost);
}

Loader::Loader(const DataSet& set, int64_t batch, Plan plan, LoaderOptions options)
    : set_(set), plan_(std::move(plan)), options_(std::move(options)), ring_(ring_size(batch, options_.workers)) {
  check(batch > 0 && options_.workers > 0, options_.workers, " workers for micro-batches of ", batch);
  for (Slot& slot : ring_) slot.samples.resize(static_cast<size_t>(batch) * set.shape().bytes());
  try {
    for (int i = 0; i < options_.workers; ++i) workers_.emplace_back(&Loader::work, this);
  } catch (const std::system_error& error) {
    stop();
    fail(ExitCode::memory, "data.workers: ", options_.workers,
         " threads that read data cannot be started: ", error.what(), "; use fewer");
  }
}

void Loader::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

size_t Loader::bytes(const SampleShape& shape, int64_t batch, int workers) {
  return ring_size(batch, workers) * static_cast<size_t>(batch) * shape.bytes();
}

/// What the i-th slot from the head will hold.
void Loader::plan(size_t i) {
  Slot& slot = ahead(i);
  const SampleList list = plan_(next_ + static_cast<int64_t>(i) * options_.stride);
  slot.images.assign(list.images.begin(), list.images.end());
  slot.repeats.assign(list.repeats.begin(), list.repeats.end());
  slot.list = {slot.images, list.key, list.others, slot.repeats};
  slot.written.assign(slot.images.size(), kLeftOut);
  slot.begun = slot.done = 0;
  slot.error = nullptr;
  set_.prefetch(slot.images, {});
}

/// Continues from a different place from the expected one: discards what was read ahead.
void Loader::restart(std::unique_lock<std::mutex>& lock, int64_t number) {
  for (Slot& slot : ring_) slot.begun = slot.images.size();
  arrived_.wait(lock, [&] { return readers_ == 0; });
  next_ = number;
  for (size_t i = 0; i < ring_.size(); ++i) plan(i);
  wanted_.notify_all();
}

void Loader::take(int64_t number, uint8_t* to, std::span<int64_t> written) {
  std::unique_lock lock(mutex_);
  if (number != next_) restart(lock, number);
  Slot& slot = ahead(0);
  while (!slot.error && slot.done < slot.images.size()) {
    arrived_.wait(lock);
    if (options_.arrived) options_.arrived();
  }
  if (slot.error) std::rethrow_exception(slot.error);
  lock.unlock();
  std::memcpy(to, slot.samples.data(), slot.images.size() * set_.shape().bytes());
  std::ranges::copy(slot.written, written.begin());
  lock.lock();
  next_ += options_.stride;
  head_ = (head_ + 1) % ring_.size();
  plan(ring_.size() - 1);
  wanted_.notify_all();
}

Loader::Slot* Loader::next_to_read() {
  for (size_t i = 0; i < ring_.size(); ++i)
    if (Slot& slot = ahead(i); slot.begun < slot.images.size()) return &slot;
  return nullptr;
}

void Loader::work() {
  pthread_setname_np(pthread_self(), "loader");
  std::unique_lock lock(mutex_);
  for (;;) {
    Slot* slot = nullptr;
    wanted_.wait(lock, [&] { return stopping_ || (slot = next_to_read()) != nullptr; });
    if (stopping_) return;
    const size_t i = slot->begun++;
    ++readers_;
    lock.unlock();
    std::exception_ptr error;
    int64_t written = kLeftOut;
    try {
      written = read_sample(set_, slot->list, i, slot->samples.data() + i * set_.shape().bytes());
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --readers_;
    ++slot->done;
    slot->written[i] = written;
    if (error && !slot->error) slot->error = error;
    arrived_.notify_one();
  }
}

}  // namespace ct
