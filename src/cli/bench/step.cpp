#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/error.h"
#include "cli/bench/bench.h"
#include "cli/bench/ops.h"
#include "cli/verbs.h"
#include "device/peaks.h"
#include "train/session.h"

namespace ct {

namespace {

/// Windows of training steps.
class StepBench {
 public:
  StepBench(const BenchFlags& flags, const Config& config, Communicator& comm)
      : flags_(flags),
        session_(config, comm,
                 {.memory_advice = "use a smaller train_micro_batch_size_per_gpu (--set)",
                  .evaluates = false,
                  .warn = comm.rank() == 0 ? warn : nullptr,
                  .progress = flags.progress}) {
    session_.prepare();
    session_.make_data();
    const DataSource& source = session_.data().source;
    if (source.written) std::fprintf(stderr, "%s\n", source.note.c_str());
    session_.initialize();
  }

  Spread run() {
    Communicator& comm = session_.collectives();
    const Traffic before = comm.traffic(TrafficKind::training);
    const int64_t first = step_;
    const Spread time = time_windows(session_.comm(), flags_, "steps", [this](int64_t count) {
      session_.run_steps(step_, count);
      step_ += count;
    });
    const Traffic moved = comm.traffic(TrafficKind::training) - before;
    moved_ = {moved.elements / (step_ - first), moved.bytes / (step_ - first)};
    return time;
  }
  /// Ends the session, by all ranks together, when nothing more is timed.
  void finish() { session_.finish(); }
  Engine& engine() { return session_.engine(); }
  Backend& backend() { return session_.backend(); }
  const BatchSizes& batch() const { return session_.batch(); }
  /// What this rank moved in a step.
  const Traffic& moved() const { return moved_; }
  const std::string& not_recorded() { return engine().bound().not_recorded(); }
  size_t recorded_nodes() { return engine().bound().recorded_nodes(batch().accumulation); }

 private:
  const BenchFlags& flags_;
  TrainingSession session_;
  int64_t step_ = 0;
  Traffic moved_;
};

/// A step of another configuration.
double other_step(const BenchFlags& f, const Config& config, Communicator& comm) {
  StepBench bench(f, config, comm);
  const double median = bench.run().median;
  bench.finish();
  return median;
}

/// By --large: what passes over memory, on tensors that no cache holds.
std::string bench_large_operations(const BenchFlags& f, StepBench& bench, const DevicePeaks& peaks, Json& result) {
  f.progress("");
  if (!f.large) return "";
  f.progress("timing operations on large tensors");
  const OpTimes times = time_large_operations(bench.engine().lowered(), bench.backend(),
                                              {.windows = f.windows, .window = std::min(f.window, 0.01)});
  f.progress("");
  result["large_ops"] = operations(times, peaks);
  return "\n" + table(times, peaks, str("on tensors of ", kLargeBytes >> 20, " MiB"));
}

/// Measures on a device beside the host, one rank: operations against peaks, the step recorded and not, and what of it
/// is no operation's.
std::string bench_device_operations(const BenchFlags& f, const Config& config, Communicator& comm,
                                    std::unique_ptr<StepBench> bench, double step, Json& result) {
  f.progress("measuring the device's peaks");
  const DevicePeaks peaks = measure_peaks(bench->backend(), compute_type(config));
  const OpTimes times =
      time_device_operations(bench->engine(), bench->backend(),
                             {.windows = f.windows, .window = std::min(f.window, 0.01), .progress = f.progress});
  const std::string large = bench_large_operations(f, *bench, peaks, result);
  bench->finish();
  bench.reset();  // makes room
  Config flipped = config;
  flipped.cuda.record = !config.cuda.record;
  const double other = other_step(f, flipped, comm);
  const double recorded = config.cuda.record ? step : other, unrecorded = config.cuda.record ? other : step;
  add_operations(result, times, peaks);
  result["recorded_us"] = 1e6 * recorded;
  result["unrecorded_us"] = 1e6 * unrecorded;
  result["gaps_us"] = 1e6 * (recorded - times.step);
  const std::string line = fmt::format(
      "\nstep: {:.1f} us recorded, {:.1f} us unrecorded; its operations {:.1f} us, gaps between them and copies of "
      "batches {:.1f} us ({:.1f} % of the recorded step)",
      1e6 * recorded, 1e6 * unrecorded, 1e6 * times.step, 1e6 * (recorded - times.step),
      100 * (1 - times.step / recorded));
  return "\n" + table(times, peaks, peaks.text) + large + line;
}

}  // namespace

int bench_step(const BenchFlags& f, const Config& config, Communicator& comm) {
  auto owned = std::make_unique<StepBench>(f, config, comm);
  StepBench& bench = *owned;
  const Spread time = bench.run();
  // What it costs that any number of ranks gives the same bits: against sums in the order that suits the transport.
  std::optional<double> other;
  const bool sums = bench.batch().accumulation > 1 || comm.overlaps();  // else there is nothing to reorder
  if (sums && !f.operations) {
    Config flipped = config;
    flipped.communication.reproducible = !config.communication.reproducible;
    other = other_step(f, flipped, comm);
  }
  const bool operations = f.operations && comm.size() == 1, host = bench.backend().is_host();
  const std::string not_recorded = bench.not_recorded();
  const size_t nodes = bench.recorded_nodes();
  if (!operations) bench.finish();
  if (comm.rank() != 0) return 0;
  const BatchSizes& batch = bench.batch();
  const double images = static_cast<double>(batch.train);
  std::string text = str(config.model.name, config.bf16.enabled == true ? " bf16" : "", ", batch ", batch.train, " = ",
                         batch.micro, " x ", batch.accumulation, " x ", comm.size(), " ranks, ZeRO stage ",
                         config.zero_optimization.stage, ", ", bench.backend().description(), ": ");
  text += fmt::format("{:.0f} images/s ({:.0f} - {:.0f}), {:.1f} us per step", images / time.median, images / time.max,
                      images / time.min, 1e6 * time.median);
  Json result = {{"bench", "step"},
                 {"model", config.model.name},
                 {"batch", batch.train},
                 {"micro_batch", batch.micro},
                 {"ranks", comm.size()},
                 {"zero_stage", config.zero_optimization.stage},
                 {"samples_per_sec", images / time.median},
                 {"step_us", 1e6 * time.median},
                 {"step_us_min", 1e6 * time.min},
                 {"step_us_max", 1e6 * time.max}};
  if (nodes > 0) text += str(", recorded as ", nodes, " nodes");
  if (nodes > 0) result["recorded_nodes"] = nodes;
  if (!not_recorded.empty()) result["not_recorded"] = not_recorded;
  if (comm.size() > 1) {
    text += str("; ", bench.moved().elements, " elements (", bench.moved().bytes, " bytes) moved a step by rank 0");
    result["traffic"] = {{"elements", bench.moved().elements}, {"bytes", bench.moved().bytes}};
  }
  if (other) {
    const bool now = config.communication.reproducible;
    const double with = now ? time.median : *other, without = now ? *other : time.median;
    text += fmt::format("\nreproducible sums: {:.1f} us per step with, {:.1f} without ({:+.1f} %)", 1e6 * with,
                        1e6 * without, 100 * (with / without - 1));
    result["reproducible_cost"] = with / without - 1;
  }
  if (operations && host) {
    const OpTimes times = time_host_operations(bench.engine(), f.progress);
    f.progress("measuring the device's peaks");
    const DevicePeaks peaks = measure_peaks(bench.backend(), compute_type(config));
    add_operations(result, times, peaks);
    text += "\n" + table(times, peaks, peaks.text) + bench_large_operations(f, bench, peaks, result);
    if (config.cpu.autotune) text += "\n" + bench.backend().plans.text();
  } else if (operations) {
    text += bench_device_operations(f, config, comm, std::move(owned), time.median, result);
  }
  print(f, result, text);
  return 0;
}

}  // namespace ct
