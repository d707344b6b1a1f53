// Micro-batches read ahead of the step by worker threads: an ordered ring, filled sample by sample. What is taken
// depends on its number alone, so nothing of it is ever saved, and any number of workers gives the same.
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

/// The samples of one micro-batch.
struct SampleList {
  std::span<const uint32_t> images;  // none: nothing comes any more
  SampleKey key;
  std::span<const uint32_t> others = {};  // that may take a damaged one's place; none: it is left out
};

/// Reads one image. Where it is damaged and the set says to go on (OnCorrupt::skip), one of the `others` is read in its
/// place, label and all: it is drawn by (seed, epoch, image), so that any number of workers and ranks, and a resume,
/// take the same. Returns the one that was read, or kLeftOut where there are no others. Error(data) where one damaged
/// image after the other is drawn.
int64_t read_sample(const DataSet& set, uint32_t image, const SampleKey& key, std::span<const uint32_t> others,
                    uint8_t* to);
inline constexpr int64_t kLeftOut = -1;

/// Worker threads of one of `ranks` ranks on this host: as many as were `asked` for (data.workers), or, if 0, as it has
/// cores for, at most 8.
int loader_workers(int64_t asked, int ranks);

struct LoaderOptions {
  int workers = 1;
  int64_t stride = 1;  // from one micro-batch's number to the next one's
  /// Called by the thread that waits in take(), whenever samples have arrived: a sign of life.
  std::function<void()> arrived = {};
};

class Loader {
 public:
  /// Called by the thread that takes, for numbers that are ahead of it.
  using Plan = std::function<SampleList(int64_t number)>;
  /// Reads micro-batches of at most `batch` samples. The set must outlive the loader.
  Loader(const DataSet& set, int64_t batch, Plan plan, LoaderOptions options);
  ~Loader() { stop(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Waits for a micro-batch and copies its samples; those that follow are read meanwhile. Any number may be asked for,
  /// but only the next one is ready. `written` gets read_sample()'s answer for each. Throws what reading one of them
  /// threw.
  void take(int64_t number, uint8_t* to, std::span<int64_t> written);

  /// Memory of the ring.
  static size_t bytes(const SampleShape& shape, int64_t batch, int workers);

 private:
  struct Slot {
    std::vector<uint32_t> images;
    SampleKey key;
    std::span<const uint32_t> others;
    std::vector<uint8_t> samples;
    std::vector<int64_t> written;  // read_sample()'s answers
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
  size_t head_ = 0;      // where the next micro-batch to be taken lies
  int64_t next_ = -1;    // its number
  int64_t readers_ = 0;  // workers inside DataSet::read()
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace ct
