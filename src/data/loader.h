// Micro-batches that worker threads read ahead into an ordered ring, sample by sample. A micro-batch depends on its
// number alone, so there is no state to save, and any number of workers gives the same result.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/dataset.h"

namespace ct {

/// Reads the i-th sample of a list. If its image is damaged and the set has OnCorrupt::skip, it is replaced by one of
/// the `others` with its label, drawn by the sample's key and image, so that any number of workers and ranks, and a
/// resume, select the same. Returns the image that was read, or kLeftOut if there are no others. Error(data) if too
/// many drawn images in a row are damaged.
int64_t read_sample(const DataSet& set, const SampleList& list, size_t i, uint8_t* to);
inline constexpr int64_t kLeftOut = -1;

/// The number of worker threads of one of `ranks` ranks on this host: `asked` (data.workers), or, if 0, cores divided
/// by ranks, at most 8.
int loader_workers(int64_t asked, int ranks);

struct LoaderOptions {
  int workers = 1;
  int64_t stride = 1;  // between the numbers of successive micro-batches
  /// Called by the thread that waits in take(), whenever samples have arrived, as a sign of life.
  std::function<void()> arrived = {};
};

class Loader {
 public:
  /// Called by the thread that calls take(), for later numbers.
  using Plan = std::function<SampleList(int64_t number)>;
  /// Reads micro-batches of at most `batch` samples. The set must outlive the loader.
  Loader(const DataSet& set, int64_t batch, Plan plan, LoaderOptions options);
  ~Loader() { stop(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Waits for a micro-batch and copies its samples, while following ones are read. Any number may be requested, but
  /// only the next one is read ahead. `written` receives the result of read_sample() for each. Rethrows errors of
  /// reading.
  void take(int64_t number, uint8_t* to, std::span<int64_t> written);

  /// Bytes of the ring.
  static size_t bytes(const SampleShape& shape, int64_t batch, int workers);

 private:
  struct Slot {
    std::vector<uint32_t> images, repeats;
    SampleList list;  // of these two
    std::vector<uint8_t> samples;
    std::vector<int64_t> written;  // results of read_sample()
    size_t begun = 0, done = 0;
    std::exception_ptr error;
  };
  Slot& ahead(size_t i) { return ring_[(head_ + i) % ring_.size()]; }
  void plan(size_t i);
  void restart(std::unique_lock<std::mutex>& lock, int64_t number);
  Slot* next_to_read();
  void work();
  void stop();

  const DataSet& set_;
  const Plan plan_;
  const LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable wanted_, arrived_;
  std::vector<Slot> ring_;
  size_t head_ = 0;      // slot of the next micro-batch to take
  int64_t next_ = -1;    // its number
  int64_t readers_ = 0;  // workers inside DataSet::read()
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace ct
