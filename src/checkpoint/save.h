// One checkpoint being written by all ranks.
//
// Rank 0 creates the folder and weights.safetensors at its full length. Then every rank writes the rows that it owns:
// weights to their places in that file, moments to its own file (optim-KK-of-NN.safetensors). Then rank 0 collects the
// checksums, writes the header, state.json and the manifest, and renames the folder. Two threads of each rank do the
// writing, and one on rank 0 the completion, without communication; ranks communicate only in poll() and finish().
// Except snapshots, which belong to the caller, no buffer is larger than kBucketBytes (rows.h) or a row.
#pragma once

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "checkpoint/rows.h"
#include "checkpoint/store.h"

namespace ct {

/// The contents of a checkpoint.
struct SaveContents {
  int64_t step = 0;
  /// All tensors, with full shapes; the same on all ranks.
  std::vector<TensorSpec> weights, moments;
  /// The rows that this rank owns, at most one run for each tensor. All ranks together own every row once.
  std::vector<Rows> own_weights, own_moments;
  /// Called from the writing threads until the save is over: with `background` from both at once.
  ReadRows read_weights, read_moments;
  /// Metadata and state are those of rank 0. Numbers in `state` that are not finite become null.
  Metadata metadata;  // of the weights
  nlohmann::json state;
  /// Called on rank 0, on the writing thread, after the checkpoint exists.
  std::function<void()> after_commit;
  /// The caller computes in parallel: the writing threads use only idle time of their cores.
  bool background = false;
};

class CheckpointSave {
 public:
  /// Collective. `store` must outlive this.
  CheckpointSave(Communicator& comm, Store& store, SaveContents contents);
  /// If the save is not over, it is abandoned, and Store::recover() removes its files.
  ~CheckpointSave() { given_up_ = true; }

  /// Collective: is the save over? Continues as far as possible without waiting for a disk. Once it has returned true,
  /// do not call poll() or finish() again. A failure on any rank throws the same Error on all; the unfinished folder is
  /// then removed.
  bool poll() { return advance(/*wait=*/false); }
  /// Collective: waits until the save is over.
  void finish() {
    while (!advance(/*wait=*/true)) {
    }
  }

 private:
  /// The files and rows written by one rank.
  struct Own {
    std::vector<WrittenRows> weights;
    Part shard;
    std::vector<size_t> moments_not_finite;  // of SaveContents::moments
  };
  /// The files and rows written by all ranks.
  struct All {
    std::vector<WrittenRows> weights;
    std::vector<Part> shards;
    std::vector<std::string> not_finite;
  };

  Own write();
  void write_shard(Own& own);
  void end(All all);
  bool advance(bool wait);
  void collect();
  void after_bucket();
  template <class T>
  void wait_for(const std::future<T>& future);
  /// run_on_all_ranks(), with a clean-up if it throws.
  void agree(const std::function<void()>& work);

  Communicator& comm_;
  Store& store_;
  SaveContents contents_;
  std::optional<SafetensorsPlan> plan_;  // of the weights
  std::optional<File> file_;             // rank 0's
  std::atomic<bool> given_up_ = false;
  std::atomic<int64_t> buckets_ = 0;
  bool collected_ = false;
  // Declared last, so that their destructors, which wait for the thread, run first.
  std::future<Own> writing_;
  std::future<void> ending_;  // rank 0's
};

}  // namespace ct
