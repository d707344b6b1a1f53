// bench update: norm, clip, Adam, bf16 copy; each rank has its share of the parameters, as ZeRO assigns them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "cli/bench/bench.h"
#include "cli/bench/ops.h"
#include "device/cpu/kernels/grad_norm.h"
#include "device/cpu/kernels/optimizer.h"
#include "device/peaks.h"
#include "train/session.h"

namespace ct {

int bench_update(const BenchFlags& f, Communicator& comm) {
  const int64_t all = f.elements > 0 ? f.elements : 25'700'000;
  const int64_t n = all / comm.size() / kChunk * kChunk;
  const auto backend = make_cpu_backend({.memory_advice = kFewerElements});
  backend->enter_thread();
  std::vector<Memory> memory;
  const auto buffer = [&](float value) {
    memory.push_back(backend->allocate(static_cast<size_t>(n) * sizeof(float)));
    float* at = reinterpret_cast<float*>(memory.back().data());
    std::fill_n(at, n, value);
    return at;
  };
  cpu::AdamArgs args{{.n = n,
                      .grads = buffer(1e-3f),
                      .params = buffer(0.1f),
                      .bf16_params = reinterpret_cast<uint16_t*>(buffer(0)),
                      .learning_rate = 1e-3f,
                      .gradient_scale = 1},
                     buffer(1e-4f),
                     buffer(1e-6f),
                     /*beta1=*/0.9f,
                     /*one_minus_beta1=*/0.1f,
                     /*beta2=*/0.999f,
                     /*one_minus_beta2=*/0.001f,
                     /*eps=*/1e-8f,
                     /*bias_correction1=*/2,
                     /*sqrt_bias_correction2=*/20,
                     /*decoupled=*/true};
  std::vector<double> sums(static_cast<size_t>(n / kChunk));
  const Spread whole = time_windows(comm, f, [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      cpu::sum_of_squares(args.grads, n, sums.data());
      double total = std::accumulate(sums.begin(), sums.end(), 0.0);
      std::vector<double> parts(static_cast<size_t>(comm.size()));
      comm.gather_all(std::as_bytes(std::span(&total, 1)), std::as_writable_bytes(std::span(parts)));
      const double norm = std::sqrt(std::accumulate(parts.begin(), parts.end(), 0.0));
      args.gradient_scale = static_cast<float>(std::min(1.0, 1 / (norm + 1e-6)));
      cpu::adam(args);
    }
  });
  cpu::AdamArgs alone = args;
  alone.bf16_params = nullptr;
  const Spread adam = time_windows(comm, f, [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) cpu::adam(alone);
  });
  if (comm.rank() != 0) return 0;
  const double m = static_cast<double>(n * comm.size()) / 1e6;
  char text[256];
  std::snprintf(
      text, sizeof text,
      "update of %.1f M parameters on %d ranks: %.0f Mparam/s (%.1f ms, %.1f GB/s at 34 B); Adam alone: %.0f Mparam/s "
      "(%.1f ms, %.1f GB/s at 28 B)",
      m, comm.size(), m / whole.median, 1e3 * whole.median, m * 34e-3 / whole.median, m / adam.median,
      1e3 * adam.median, m * 28e-3 / adam.median);
  print(f,
        {{"bench", "update"},
         {"parameters", m * 1e6},
         {"ranks", comm.size()},
         {"update_ms", 1e3 * whole.median},
         {"update_mparam_per_sec", m / whole.median},
         {"adam_ms", 1e3 * adam.median},
         {"adam_mparam_per_sec", m / adam.median}},
        text);
  return 0;
}

/// Measures on a GPU: Adam by itself, and with the copy that layers compute with, against a plain copy.
int bench_device_update(const BenchFlags& f, const Config& config) {
  const auto backend = make_backend(config, /*local_rank=*/0, kFewerElements);
  backend->enter_thread();
  const int64_t n = f.elements > 0 ? f.elements : 25'700'000;
  const auto value = [n](DType type) { return Value{.shape = {n}, .dtype = type}; };
  const std::vector<Value> values{
      value(DType::f32),  value(DType::f32),
      value(DType::f32),  value(DType::f32),
      value(DType::bf16), {.shape = {static_cast<int64_t>(sizeof(StepScalars))}, .dtype = DType::u8}};
  std::vector<Memory> memory;
  for (const Value& v : values) memory.push_back(backend->allocate(static_cast<size_t>(stored_bytes(v))));
  const Memory scalars = backend->allocate_host(sizeof(StepScalars));
  new (scalars.data()) StepScalars{.grad_scale = 1, .lr = 1e-3, .coefficients = {0.9, 0.999, 1, 1}};
  backend->copy(memory.back().data(), scalars.data(), sizeof(StepScalars));
  const DevicePeaks peaks = measure_peaks(*backend, compute_type(config));
  const auto seconds = [&](ValueId copy) {
    return time_operation(
        *backend,
        Adam{{.slices = {{.masters = 0, .grads = 1, .states = {2, 3}, .copy = copy, .weight_decay = 0.01}},
              .scalars = 5},
             /*eps=*/1e-8,
             AdamMode::decoupled},
        values,
        [&](ValueId id) {
          const auto i = static_cast<size_t>(id);
          return Tensor{memory[i].data(), values[i].dtype, values[i].shape};
        },
        {.windows = f.windows, .window = f.window, .record = config.cuda.record});
  };
  const double alone = seconds(kNone), whole = seconds(4), m = static_cast<double>(n) / 1e6;
  char text[320];
  std::snprintf(text, sizeof text,
                "update of %.1f M parameters: Adam with a bf16 copy %.0f Mparam/s (%.3f ms, %.1f GB/s at 30 B, %.1f %% "
                "of the copy); Adam alone: %.0f Mparam/s (%.3f ms, %.1f GB/s at 28 B, %.1f %%)",
                m, m / whole, 1e3 * whole, m * 30e-3 / whole, 100 * m * 30e6 / whole / peaks.bytes, m / alone,
                1e3 * alone, m * 28e-3 / alone, 100 * m * 28e6 / alone / peaks.bytes);
  print(f,
        {{"bench", "update"},
         {"parameters", n},
         {"device", backend->description()},
         {"update_ms", 1e3 * whole},
         {"update_mparam_per_sec", m / whole},
         {"update_copy_share", m * 30e6 / whole / peaks.bytes},
         {"adam_ms", 1e3 * alone},
         {"adam_mparam_per_sec", m / alone},
         {"adam_copy_share", m * 28e6 / alone / peaks.bytes},
         {"copy_bytes_per_sec", peaks.bytes}},
        peaks.text + "\n" + text);
  return 0;
}

}  // namespace ct
