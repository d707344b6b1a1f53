// bench update: norm, clip, the configuration's optimizer, bf16 copy; the optimizer and the average of weights by
// themselves; each rank has its share of the parameters, as ZeRO assigns them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "cli/bench/bench.h"
#include "cli/bench/ops.h"
#include "device/cpu/kernels/grad_norm.h"
#include "device/cpu/kernels/optimizer.h"
#include "device/peaks.h"
#include "train/session.h"

namespace ct {
namespace {

/// The configuration's optimizer over one slice of n parameters: its operation, and the values that it works on.
class MeasuredUpdate {
 public:
  MeasuredUpdate(const Config& config, int64_t n) {
    const auto add = [&](Shape shape, DType type) {
      values_.push_back({.shape = shape, .dtype = type});
      return static_cast<ValueId>(values_.size() - 1);
    };
    slice_.masters = add({n}, DType::f32);
    grads_ = slice_.grads = add({n}, DType::f32);
    slice_.copy = add({n}, DType::bf16);
    scalars_ = add({static_cast<int64_t>(sizeof(StepScalars))}, DType::u8);
    std::visit(
        [&](const auto& optimizer) {
          name_ = optimizer.kType;
          slice_.weight_decay = optimizer.weight_decay;
          for (const std::string& state : optimizer.states())
            slice_.states.push_back(state.empty() ? kNone : add({n}, DType::f32));
          constexpr int64_t kSteps = 1000;  // applied before
          step_ = {.grad_scale = 1,
                   .lr = optimizer.rates().lr,
                   .coefficients = optimizer.coefficients(optimizer.rates(), kSteps)};
          op_ = [optimizer](Update update) { return optimizer.op(std::move(update)); };
        },
        config.optimizer.value());
  }

  const std::string& name() const { return name_; }
  const std::vector<Value>& values() const { return values_; }
  ValueId grads() const { return grads_; }
  ValueId scalars() const { return scalars_; }
  const StepScalars& step() const { return step_; }

  /// The operation with the copy that layers compute with, or by itself.
  ComputeOp op(bool with_copy) const {
    UpdateSlice slice = slice_;
    if (!with_copy) slice.copy = kNone;
    return op_(Update{.slices = {slice}, .scalars = scalars_});
  }
  /// Bytes that it moves of each parameter.
  int64_t bytes(bool with_copy) const {
    return std::llround(cost_of(op(with_copy), values_).bytes / static_cast<double>(values_.front().shape.numel()));
  }

 private:
  std::string name_;
  std::vector<Value> values_;
  UpdateSlice slice_;
  ValueId grads_, scalars_;
  StepScalars step_;
  std::function<ComputeOp(Update)> op_;
};

std::vector<Memory> memory_of(Backend& backend, const std::vector<Value>& values) {
  std::vector<Memory> memory;
  for (const Value& v : values) memory.push_back(backend.allocate(static_cast<size_t>(stored_bytes(v))));
  return memory;
}

Resolve operands_in(const std::vector<Memory>& memory, const std::vector<Value>& values) {
  return [&memory, &values](ValueId id) {
    const auto i = static_cast<size_t>(id);
    return Tensor{memory[i].data(), values[i].dtype, values[i].shape};
  };
}

}  // namespace

int bench_update(const BenchFlags& f, const Config& config, Communicator& comm) {
  const int64_t all = f.elements > 0 ? f.elements : 25'700'000;
  const int64_t n = all / comm.size() / kChunk * kChunk;
  if (n == 0) fail(ExitCode::usage, "--elements ", all, ": give ", kChunk * comm.size(), " or more");
  const auto backend = make_cpu_backend({.memory_advice = kFewerElements});
  backend->enter_thread();
  const MeasuredUpdate update(config, n);
  const std::vector<Memory> memory = memory_of(*backend, update.values());
  for (size_t i = 0; i < memory.size(); ++i)
    if (update.values()[i].dtype == DType::f32) {
      const float value = static_cast<ValueId>(i) == update.grads() ? 1e-3f : 1e-4f;
      std::fill_n(reinterpret_cast<float*>(memory[i].data()), n, value);
    }
  const auto at = [&](ValueId id) { return memory[static_cast<size_t>(id)].data(); };
  const float* const grads = reinterpret_cast<const float*>(at(update.grads()));
  StepScalars& scalars = *new (at(update.scalars())) StepScalars(update.step());
  const auto prepared = [&](bool with_copy) {
    auto kernel = backend->prepare(update.op(with_copy), update.values());
    kernel->bind(operands_in(memory, update.values()), nullptr);
    return kernel;
  };
  const auto with_copy = prepared(true), alone = prepared(false);
  std::vector<double> sums(static_cast<size_t>(n / kChunk));
  const Spread whole_time = time_windows(comm, f, [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      cpu::sum_of_squares(grads, n, sums.data());
      double total = std::accumulate(sums.begin(), sums.end(), 0.0);
      std::vector<double> parts(static_cast<size_t>(comm.size()));
      comm.gather_all(std::as_bytes(std::span(&total, 1)), std::as_writable_bytes(std::span(parts)));
      const double norm = std::sqrt(std::accumulate(parts.begin(), parts.end(), 0.0));
      scalars.grad_scale = std::min(1.0, 1 / (norm + 1e-6));
      with_copy->launch();
    }
  });
  const Spread alone_time = time_windows(comm, f, [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) alone->launch();
  });
  const Memory averages = backend->allocate(static_cast<size_t>(n) * sizeof(float));
  const auto* const masters = reinterpret_cast<const float*>(memory.front().data());
  const auto average = reinterpret_cast<float*>(averages.data());
  std::fill_n(average, n, 1e-4f);
  const Spread ema = time_windows(comm, f, [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) cpu::ema({.n = n, .params = masters, .average = average, .rest = 0.001f});
  });
  if (comm.rank() != 0) return 0;
  const double m = static_cast<double>(n * comm.size()) / 1e6, whole = whole_time.median, by_itself = alone_time.median;
  const int64_t read_for_norm = sizeof(float), bytes = update.bytes(true) + read_for_norm,
                bytes_alone = update.bytes(false);
  const char* const name = update.name().c_str();
  char text[400];
  std::snprintf(
      text, sizeof text,
      "update of %.1f M parameters on %d ranks by %s: %.0f Mparam/s (%.1f ms, %.1f GB/s at %ld B); %s alone: "
      "%.0f Mparam/s (%.1f ms, %.1f GB/s at %ld B); an average of weights: %.0f Mparam/s (%.1f ms, %.1f GB/s at "
      "12 B)",
      m, comm.size(), name, m / whole, 1e3 * whole, m * 1e-3 * static_cast<double>(bytes) / whole, bytes, name,
      m / by_itself, 1e3 * by_itself, m * 1e-3 * static_cast<double>(bytes_alone) / by_itself, bytes_alone,
      m / ema.median, 1e3 * ema.median, m * 12e-3 / ema.median);
  print(f,
        {{"bench", "update"},
         {"optimizer", update.name()},
         {"parameters", m * 1e6},
         {"ranks", comm.size()},
         {"update_ms", 1e3 * whole},
         {"update_mparam_per_sec", m / whole},
         {"alone_ms", 1e3 * by_itself},
         {"alone_mparam_per_sec", m / by_itself},
         {"ema_ms", 1e3 * ema.median},
         {"ema_mparam_per_sec", m / ema.median}},
        text);
  return 0;
}

/// Measures on a GPU: the optimizer by itself, and with the copy that layers compute with, against a plain copy.
int bench_device_update(const BenchFlags& f, const Config& config) {
  const auto backend = make_backend(config, /*local_rank=*/0, kFewerElements);
  backend->enter_thread();
  const int64_t n = f.elements > 0 ? f.elements : 25'700'000;
  const MeasuredUpdate update(config, n);
  const std::vector<Memory> memory = memory_of(*backend, update.values());
  const Memory scalars = backend->allocate_host(sizeof(StepScalars));
  new (scalars.data()) StepScalars(update.step());
  backend->copy(memory[static_cast<size_t>(update.scalars())].data(), scalars.data(), sizeof(StepScalars));
  const DevicePeaks peaks = measure_peaks(*backend, compute_type(config));
  const auto seconds = [&](bool with_copy) {
    return time_operation(*backend, update.op(with_copy), update.values(), operands_in(memory, update.values()),
                          {.windows = f.windows, .window = f.window, .record = config.cuda.record});
  };
  const double by_itself = seconds(false), whole = seconds(true), m = static_cast<double>(n) / 1e6;
  const int64_t bytes = update.bytes(true), bytes_alone = update.bytes(false);
  const double rate = m * 1e6 * static_cast<double>(bytes) / whole,
               rate_alone = m * 1e6 * static_cast<double>(bytes_alone) / by_itself;
  const char* const name = update.name().c_str();
  char text[320];
  std::snprintf(text, sizeof text,
                "update of %.1f M parameters: %s with a bf16 copy %.0f Mparam/s (%.3f ms, %.1f GB/s at %ld B, %.1f %% "
                "of the copy); %s alone: %.0f Mparam/s (%.3f ms, %.1f GB/s at %ld B, %.1f %%)",
                m, name, m / whole, 1e3 * whole, 1e-9 * rate, bytes, 100 * rate / peaks.bytes, name, m / by_itself,
                1e3 * by_itself, 1e-9 * rate_alone, bytes_alone, 100 * rate_alone / peaks.bytes);
  print(f,
        {{"bench", "update"},
         {"optimizer", update.name()},
         {"parameters", n},
         {"device", backend->description()},
         {"update_ms", 1e3 * whole},
         {"update_mparam_per_sec", m / whole},
         {"update_copy_share", rate / peaks.bytes},
         {"alone_ms", 1e3 * by_itself},
         {"alone_mparam_per_sec", m / by_itself},
         {"alone_copy_share", rate_alone / peaks.bytes},
         {"copy_bytes_per_sec", peaks.bytes}},
        peaks.text + "\n" + text);
  return 0;
}

}  // namespace ct
