// bench update: norm, clip, the configuration's optimizer, bf16 copy; the optimizer and the average of weights by
// themselves; of Muon the orthogonalisation of a matrix too; each rank has its share of the parameters, as ZeRO assigns
// them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/bench/bench.h"
#include "cli/bench/measured_update.h"
#include "cli/bench/ops.h"
#include "device/cpu/kernels/grad_norm.h"
#include "device/cpu/kernels/optimizer.h"
#include "device/peaks.h"
#include "train/session.h"

namespace ct {
namespace {

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

/// Muon's orthogonalisation of one of ResNet-18's largest matrices.
struct OrthogonalizeTime {
  double seconds, flops, peak;
};
constexpr int64_t kRows = 512, kColumns = 4608;
std::optional<OrthogonalizeTime> time_orthogonalize(Backend& backend, const Config& config, const BenchFlags& f) {
  const auto* muon = std::get_if<optim::Muon>(&config.optimizer.value());
  if (muon == nullptr) return std::nullopt;
  const std::vector<Value> values{{.shape = {kRows * kColumns}},
                                  {.shape = {kRows, kColumns}},
                                  {.shape = {kRows, kColumns}},
                                  {.shape = {kRows, kRows}},
                                  {.shape = {kRows, kRows}}};
  const Orthogonalize op = muon->orthogonalize(
      {.x = 0, .left = 1, .product = 2, .gram = 3, .polynomial = 4, .stride = kColumns}, kRows, kColumns);
  const std::vector<Memory> memory = memory_of(backend, values);
  const Memory start = backend.allocate_host(static_cast<size_t>(stored_bytes(values[0])));
  auto* const numbers = reinterpret_cast<float*>(start.data());
  for (int64_t i = 0; i < kRows * kColumns; ++i) numbers[i] = std::sin(static_cast<float>(i * i % 9973));
  backend.copy(memory[0].data(), start.data(), start.bytes());
  const double seconds = time_operation(backend, op, values, operands_in(memory, values),
                                        {.windows = f.windows, .window = f.window, .record = config.cuda.record});
  return OrthogonalizeTime{seconds, cost_of(Op(op), values).flops, measure_peaks(backend, DType::f32).flops};
}

std::string text_of(const std::optional<OrthogonalizeTime>& t) {
  if (!t) return "";
  return fmt::format("\northogonalisation of {} x {}: {:.1f} ms, {:.1f} GFLOP/s, {:.1f} % of the peak", kRows, kColumns,
                     1e3 * t->seconds, 1e-9 * t->flops / t->seconds, 100 * t->flops / t->seconds / t->peak);
}

Json with(Json result, const std::optional<OrthogonalizeTime>& t) {
  if (t) result["orthogonalize_ms"] = 1e3 * t->seconds;
  if (t) result["orthogonalize_peak_share"] = t->flops / t->seconds / t->peak;
  return result;
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
  for (size_t i = 0; i < memory.size(); ++i) {
    if (update.values()[i].dtype == DType::f32) {
      const float value = static_cast<ValueId>(i) == update.grads() ? 1e-3f : 1e-4f;
      std::fill_n(reinterpret_cast<float*>(memory[i].data()), memory[i].bytes() / sizeof(float), value);
    } else if (update.values()[i].dtype == DType::f64) {
      std::fill_n(reinterpret_cast<double*>(memory[i].data()), memory[i].bytes() / sizeof(double), 1e-3);
    }
  }
  const auto at = [&](ValueId id) { return memory[static_cast<size_t>(id)].data(); };
  const float* const grads = reinterpret_cast<const float*>(at(update.grads()));
  StepScalars& scalars = *new (at(update.scalars())) StepScalars(update.step());
  const auto prepared = [&](bool with_copy) {
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (const ComputeOp& op : update.ops(with_copy)) {
      kernels.push_back(backend->prepare(op, update.values()));
      kernels.back()->bind(operands_in(memory, update.values()), nullptr);
    }
    return kernels;
  };
  const auto with_copy = prepared(true), alone = prepared(false);
  std::vector<double> sums(static_cast<size_t>(n / kChunk));
  const Spread whole_time = time_windows(comm, f, "updates behind a norm", [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      cpu::sum_of_squares(grads, n, sums.data());
      double total = std::accumulate(sums.begin(), sums.end(), 0.0);
      std::vector<double> parts(static_cast<size_t>(comm.size()));
      comm.gather_all(std::as_bytes(std::span(&total, 1)), std::as_writable_bytes(std::span(parts)));
      const double norm = std::sqrt(std::accumulate(parts.begin(), parts.end(), 0.0));
      scalars.grad_scale = std::min(1.0, 1 / (norm + 1e-6));
      for (const auto& kernel : with_copy) kernel->launch();
    }
  });
  const Spread alone_time = time_windows(comm, f, "updates", [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      for (const auto& kernel : alone) kernel->launch();
  });
  const Memory averages = backend->allocate(static_cast<size_t>(n) * sizeof(float));
  const auto* const masters = reinterpret_cast<const float*>(memory.front().data());
  const auto average = reinterpret_cast<float*>(averages.data());
  std::fill_n(average, n, 1e-4f);
  const Spread ema = time_windows(comm, f, "moving averages", [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) cpu::ema({.n = n, .params = masters, .average = average, .rest = 0.001f});
  });
  const std::optional<OrthogonalizeTime> matrix = time_orthogonalize(*backend, config, f);
  if (comm.rank() != 0) return 0;
  const double m = static_cast<double>(n * comm.size()) / 1e6, whole = whole_time.median, by_itself = alone_time.median;
  const int64_t read_for_norm = sizeof(float), bytes = update.bytes(true) + read_for_norm,
                bytes_alone = update.bytes(false);
  const char* const name = update.name().c_str();
  const std::string text = fmt::format(
      "update of {:.1f} M parameters on {} ranks by {}: {:.0f} Mparam/s ({:.1f} ms, {:.1f} GB/s at {} B); {} alone: "
      "{:.0f} Mparam/s ({:.1f} ms, {:.1f} GB/s at {} B); an average of weights: {:.0f} Mparam/s ({:.1f} ms, {:.1f} "
      "GB/s at 12 B)",
      m, comm.size(), name, m / whole, 1e3 * whole, m * 1e-3 * static_cast<double>(bytes) / whole, bytes, name,
      m / by_itself, 1e3 * by_itself, m * 1e-3 * static_cast<double>(bytes_alone) / by_itself, bytes_alone,
      m / ema.median, 1e3 * ema.median, m * 12e-3 / ema.median);
  Json result = {{"bench", "update"},
                 {"optimizer", update.name()},
                 {"parameters", m * 1e6},
                 {"ranks", comm.size()},
                 {"update_ms", 1e3 * whole},
                 {"update_mparam_per_sec", m / whole},
                 {"alone_ms", 1e3 * by_itself},
                 {"alone_mparam_per_sec", m / by_itself},
                 {"alone_gbytes_per_sec", m * 1e-3 * static_cast<double>(bytes_alone) / by_itself},
                 {"ema_ms", 1e3 * ema.median},
                 {"ema_mparam_per_sec", m / ema.median}};
  print(f, with(std::move(result), matrix), text + text_of(matrix));
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
  f.progress("measuring the device's peaks");
  const DevicePeaks peaks = measure_peaks(*backend, compute_type(config));
  f.progress("timing updates");
  const auto seconds = [&](bool with_copy) {
    double sum = 0;
    for (const ComputeOp& op : update.ops(with_copy))
      sum += time_operation(*backend, op, update.values(), operands_in(memory, update.values()),
                            {.windows = f.windows, .window = f.window, .record = config.cuda.record});
    return sum;
  };
  const double by_itself = seconds(false), whole = seconds(true), m = static_cast<double>(n) / 1e6;
  const int64_t bytes = update.bytes(true), bytes_alone = update.bytes(false);
  const double rate = m * 1e6 * static_cast<double>(bytes) / whole,
               rate_alone = m * 1e6 * static_cast<double>(bytes_alone) / by_itself;
  const char* const name = update.name().c_str();
  const std::string text = fmt::format(
      "update of {:.1f} M parameters: {} with a bf16 copy {:.0f} Mparam/s ({:.3f} ms, {:.1f} GB/s at {} B, {:.1f} % of "
      "the copy); {} alone: {:.0f} Mparam/s ({:.3f} ms, {:.1f} GB/s at {} B, {:.1f} %)",
      m, name, m / whole, 1e3 * whole, 1e-9 * rate, bytes, 100 * rate / peaks.bytes, name, m / by_itself,
      1e3 * by_itself, 1e-9 * rate_alone, bytes_alone, 100 * rate_alone / peaks.bytes);
  const std::optional<OrthogonalizeTime> matrix = time_orthogonalize(*backend, config, f);
  Json result = {{"bench", "update"},
                 {"optimizer", update.name()},
                 {"parameters", n},
                 {"device", backend->description()},
                 {"update_ms", 1e3 * whole},
                 {"update_mparam_per_sec", m / whole},
                 {"update_copy_share", rate / peaks.bytes},
                 {"alone_ms", 1e3 * by_itself},
                 {"alone_mparam_per_sec", m / by_itself},
                 {"alone_copy_share", rate_alone / peaks.bytes},
                 {"copy_bytes_per_sec", peaks.bytes}};
  f.progress("");
  print(f, with(std::move(result), matrix), peaks.text + "\n" + text + text_of(matrix));
  return 0;
}

}  // namespace ct
