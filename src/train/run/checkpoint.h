// Saving and restoring an engine's state, by all ranks together: weights and moments by name in PyTorch's layout, the
// run's state, and its provenance. Any number of ranks with any ZeRO stage reads a checkpoint of any other.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/held_folder.h"
#include "checkpoint/save.h"
#include "train/run/run_folder.h"
#include "train/run/run_state.h"
#include "train/weights.h"

namespace ct {

/// Saves the checkpoints of a run, one at a time. A save consists of begin(), optional calls of poll(), and finish(),
/// or of poll() until it returns a value. All of these are collective; a failure on any rank is the same Error on every
/// rank, and leaves nothing pending and earlier checkpoints untouched.
class CheckpointWriter {
 public:
  struct Args {
    Communicator& comm;
    Path out;           // the run's folder, which exists
    RunFolder* folder;  // rank 0's; null elsewhere
    const Graph& graph;
    Engine& engine;
    /// Save in parallel with training: begin() copies this rank's rows and returns.
    bool asynchronous = true;
  };
  /// Collective.
  explicit CheckpointWriter(const Args& args);
  /// A pending save is abandoned and leaves no checkpoint.
  ~CheckpointWriter();

  /// A completed save.
  struct Saved {
    int64_t step = 0;
    std::string path;
    double seconds = 0;   // since begin()
    std::string warning;  // for example, that older checkpoints could not be removed
  };

  /// Begins a save; none may be pending. Only rank 0's `state`, `provenance` and `metadata` are used. On return the
  /// snapshot is complete and the engine may continue (asynchronous), or only finish() may be called (otherwise).
  void begin(const RunState& state, const Provenance& provenance, const Metadata& metadata);
  bool pending() const { return save_ != nullptr; }
  /// The pending save, once it is complete and durable. Does not wait for the disk.
  std::optional<Saved> poll();
  /// Waits for the pending save.
  Saved finish();

  /// Replaces OUT/name by a weights file, atomically. Complete on return.
  void write_weights(const std::string& name, const Metadata& metadata);

  /// Memory of the snapshot, which is kept from one save to the next; 0 before the first and when not asynchronous.
  size_t snapshot_bytes() const { return snapshot_.capacity() * sizeof(float); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Source : uint8_t { engine, snapshot };
  /// The contents of a file to be written: all its tensors, and this rank's rows of them.
  struct Contents {
    std::vector<TensorSpec> specs;
    std::vector<Rows> own;
    ReadRows read;
  };

  void take_snapshot();
  size_t snapshot_place(size_t state, size_t owned) const;
  /// The contents with the states of these kinds.
  Contents contents_of(bool (*kinds)(StateKind), Source source) const;
  Contents weights(Source source) const;
  Saved over();

  Args args_;
  HeldFolder files_;
  std::unique_ptr<Store> store_;
  std::vector<ParameterRows> owned_;  // by this rank, by parameter, each parameter once
  std::vector<size_t> places_;        // of these in a state's part of the snapshot, frozen ones last
  size_t changing_elements_ = 0;      // of a state's part, without frozen ones, which only the weights have
  size_t owned_elements_ = 0;         // of the weights' part
  std::vector<float> snapshot_;
  int64_t step_ = 0;
  std::string warning_;
  Clock::time_point begun_;
  std::unique_ptr<CheckpointSave> save_;  // declared last: its thread reads the other members
};

/// Reads this rank's weights and moments, and the state. The caller must then call engine.state_written() and
/// engine.restore(state.scalars). With Moments::begin_anew, moments are not read and stay as they are, 0. No
/// communication: a rank that cannot read throws alone.
enum class Moments : bool { restored, begin_anew };
RunState restore_checkpoint(const Path& checkpoint, const std::string& model, const Graph& graph, Engine& engine,
                            Moments moments = Moments::restored);

}  // namespace ct
