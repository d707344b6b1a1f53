// cifar-train bench: how fast the step, its operations, its data, the update and the sum over ranks are here. Medians
// of windows; nothing is written but the synthetic set where it is missing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/seconds.h"
#include "cli/bench_ops.h"
#include "cli/config_lookup.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "comm/host/threads.h"
#include "comm/reduction/chain_sum.h"
#include "comm/reduction/tree_sum.h"
#include "device/cpu/kernels/norm.h"
#include "device/cpu/kernels/optimizer.h"
#include "device/peaks.h"
#include "metrics/metrics_log.h"
#include "plan/cost.h"
#include "train/agree.h"
#include "train/config/load.h"
#include "train/session.h"

namespace ct {
namespace {

constexpr const char* kFewerElements = "use fewer --elements";

struct Spread {
  double min, median, max;
};
Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

struct BenchFlags {
  std::string what = "step", config = "default.yaml", ranks = "1";
  std::vector<std::string> sets;
  double window = 0.25;
  int windows = 9;
  int64_t elements = 0;
  bool json = false, operations = false;
  std::string device, cuda_path;  // empty: what the configuration says
};

/// All ranks run `work(count)` for each window; rank 0's clock counts, from barrier to barrier.
Spread time_windows(Communicator& comm, const BenchFlags& f, const std::function<void(int64_t)>& work) {
  work(2);  // warm up
  const double once = std::max(seconds_of([&] { work(4); }) / 4, 1e-9);
  const int64_t count = broadcast_value(comm, std::max<int64_t>(1, static_cast<int64_t>(f.window / once)));
  std::vector<double> times;
  for (int w = 0; w < f.windows; ++w) {
    comm.barrier();
    times.push_back(seconds_of([&] {
                      work(count);
                      comm.barrier();
                    }) /
                    static_cast<double>(count));
  }
  return spread(times);
}

void print(const BenchFlags& f, const Json& result, const std::string& text) {
  std::printf("%s\n", f.json ? result.dump().c_str() : text.c_str());
}

// ---- the step

void print_operations(Engine& engine, Backend& backend, DType compute) {
  engine.restore({});  // each run below takes a row of the schedule
  BoundProgram& bound = engine.bound();
  std::vector<std::vector<double>> times;
  std::vector<BoundProgram::Timing> timings;
  for (int i = 0; i < 200; ++i) {
    timings = bound.time_steps();
    times.resize(timings.size());
    for (size_t k = 0; k < timings.size(); ++k) times[k].push_back(timings[k].seconds);
  }
  const DevicePeaks peaks = measure_peaks(backend, compute);
  std::printf("%s\n", peaks.text.c_str());
  std::printf("  %-24s %10s %10s %7s %10s\n", "operation", "us", "GFLOP/s", "% peak", "GB/s");
  const Lowered& program = engine.lowered();
  std::vector<const Step*> steps;
  for (const Program* p : {&program.last, &program.update})
    for (const Step& s : *p) steps.push_back(&s);
  double total = 0;
  for (size_t k = 0; k < steps.size(); ++k) {
    const double s = spread(times[k]).median;
    const Cost cost = cost_of(steps[k]->op, program.values);
    total += s;
    std::printf("  %-24s %10.2f", timings[k].name.c_str(), 1e6 * s);
    if (cost.flops > 0)
      std::printf(" %10.0f %6.0f%%", cost.flops / s / 1e9, 100 * cost.flops / s / peaks.flops);
    else
      std::printf(" %10s %7s", "", "");
    std::printf(" %10.1f\n", cost.bytes / s / 1e9);
  }
  std::printf("  %-24s %10.2f\n", "sum", 1e6 * total);
}

/// Windows of training steps.
class StepBench {
 public:
  StepBench(const BenchFlags& flags, const Config& config, Communicator& comm)
      : flags_(flags),
        session_(config, comm,
                 {.less_memory = "use a smaller train_micro_batch_size_per_gpu (--set)",
                  .evaluates = false,
                  .warn = comm.rank() == 0 ? warn : nullptr}) {
    const DataSource& source = session_.data().source;
    if (source.written) std::fprintf(stderr, "%s\n", source.note.c_str());
    session_.prepare();
    session_.initialize();
  }

  Spread run() {
    Communicator& comm = session_.collectives();
    const Traffic before = comm.traffic(TrafficKind::training);
    const int64_t first = step_;
    const Spread time = time_windows(session_.comm(), flags_, [this](int64_t count) {
      session_.run_steps(step_, count);
      step_ += count;
    });
    const Traffic moved = comm.traffic(TrafficKind::training) - before;
    moved_ = {moved.elements / (step_ - first), moved.bytes / (step_ - first)};
    return time;
  }
  /// By all ranks together, when nothing more is timed.
  void finish() { session_.finish(); }
  Engine& engine() { return session_.engine(); }
  Backend& backend() { return session_.backend(); }
  const BatchSizes& batch() const { return session_.batch(); }
  /// By this rank, a step.
  const Traffic& moved() const { return moved_; }
  const std::string& not_recorded() { return engine().bound().not_recorded(); }

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

/// On a device beside the host, one rank: operations against peaks, the step recorded and not, and what of it is no
/// operation's.
std::string bench_device_operations(const BenchFlags& f, const Config& config, Communicator& comm,
                                    std::unique_ptr<StepBench> bench, double step, Json& result) {
  const DevicePeaks peaks = measure_peaks(bench->backend(), compute_type(config));
  const OpTimes times =
      time_operations(bench->engine(), bench->backend(), {.windows = f.windows, .window = std::min(f.window, 0.01)});
  bench->finish();
  bench.reset();  // makes room
  Config flipped = config;
  flipped.cuda.record = !config.cuda.record;
  const double other = other_step(f, flipped, comm);
  const double recorded = config.cuda.record ? step : other, unrecorded = config.cuda.record ? other : step;
  result["peaks"] = {{"flops", peaks.flops}, {"copy_bytes_per_sec", peaks.bytes}, {"text", peaks.text}};
  result["ops"] = to_json(times, peaks);
  result["ops_us"] = 1e6 * times.step;
  result["recorded_us"] = 1e6 * recorded;
  result["unrecorded_us"] = 1e6 * unrecorded;
  result["gaps_us"] = 1e6 * (recorded - times.step);
  char line[256];
  std::snprintf(line, sizeof line,
                "\nstep: %.1f us recorded, %.1f us unrecorded; its operations %.1f us, gaps between them and copies of "
                "batches %.1f us (%.1f %% of the recorded step)",
                1e6 * recorded, 1e6 * unrecorded, 1e6 * times.step, 1e6 * (recorded - times.step),
                100 * (1 - times.step / recorded));
  return "\n" + table(times, peaks) + line;
}

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
  if (!operations) bench.finish();
  if (comm.rank() != 0) return 0;
  const BatchSizes& batch = bench.batch();
  const double images = static_cast<double>(batch.train);
  std::string text = str(config.model.name, config.bf16.enabled ? " bf16" : "", ", batch ", batch.train, " = ",
                         batch.micro, " x ", batch.accumulation, " x ", comm.size(), " ranks, ZeRO stage ",
                         config.zero_optimization.stage, ", ", bench.backend().description(), ": ");
  char line[256];
  std::snprintf(line, sizeof line, "%.0f images/s (%.0f - %.0f), %.1f us a step", images / time.median,
                images / time.max, images / time.min, 1e6 * time.median);
  text += line;
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
  if (!not_recorded.empty()) result["not_recorded"] = not_recorded;
  if (comm.size() > 1) {
    text += str("; ", bench.moved().elements, " elements (", bench.moved().bytes, " bytes) moved a step by rank 0");
    result["traffic"] = {{"elements", bench.moved().elements}, {"bytes", bench.moved().bytes}};
  }
  if (other) {
    const bool now = config.communication.reproducible;
    const double with = now ? time.median : *other, without = now ? *other : time.median;
    std::snprintf(line, sizeof line, "\nreproducible sums: %.1f us a step with, %.1f without (%+.1f %%)", 1e6 * with,
                  1e6 * without, 100 * (with / without - 1));
    text += line;
    result["reproducible_cost"] = with / without - 1;
  }
  if (operations && !host) text += bench_device_operations(f, config, comm, std::move(owned), time.median, result);
  print(f, result, text);
  if (operations && host) print_operations(bench.engine(), bench.backend(), compute_type(config));
  return 0;
}

// ---- the data: what the pipeline delivers when nobody computes

int bench_data(const BenchFlags& f, const Config& config, Communicator& comm) {
  const Datasets data = open_datasets(config, comm);
  const BatchSizes batch = batch_for(config.batch, comm.size());
  const Distribution d = distribution(config, batch, {comm.rank(), comm.size()});
  Pipeline pipeline(*data.train, data.parts.training, pipeline_options(config, batch, d, comm.rank()));
  const auto micro = static_cast<size_t>(batch.micro);
  std::vector<uint8_t> images(micro * data.train->shape().bytes());
  std::vector<Draw> draws(micro);
  std::vector<int32_t> labels(micro);
  int64_t step = 0;
  const Spread time = time_windows(comm, f, [&](int64_t count) {
    for (const int64_t end = step + count; step < end; ++step)
      for (int j = 0; j < d.accumulation; ++j) {
        comm.pulse().advance(Phase::data);
        pipeline.fill(step / pipeline.steps_per_epoch(), step % pipeline.steps_per_epoch(),
                      d.micro_batch(comm.rank(), j), {images, draws, labels});
      }
  });
  if (comm.rank() != 0) return 0;
  const double rate = static_cast<double>(batch.train) / time.median;
  char text[64];
  std::snprintf(text, sizeof text, "%.0f images/s, %.1f us a step", rate, 1e6 * time.median);
  print(f,
        {{"bench", "data"},
         {"dataset", data.train->name()},
         {"ranks", comm.size()},
         {"workers", pipeline.workers()},
         {"samples_per_sec", rate},
         {"step_us", 1e6 * time.median}},
        str(data.train->name(), ", images of ", to_string(data.train->shape()), ", ", comm.size(), " ranks with ",
            pipeline.workers(), " workers each: ", text));
  return 0;
}

// ---- the update: norm, clip, Adam, bf16 copy; each rank has its share of the parameters, as ZeRO deals them

int bench_update(const BenchFlags& f, Communicator& comm) {
  const int64_t all = f.elements > 0 ? f.elements : 25'700'000;
  const int64_t n = all / comm.size() / kChunk * kChunk;
  const auto backend = make_cpu_backend(kFewerElements);
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

/// On a GPU: Adam by itself, and with the copy that layers compute with, against a plain copy.
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

// ---- the sum over ranks, in the memory of the devices and through the communicator that training uses

int bench_reduce(const BenchFlags& f, const Config& config, Communicator& comm) {
  RankDevice device(config, comm, kFewerElements);
  Backend& backend = device.backend();
  Communicator& sums = device.collectives();
  const int64_t n = f.elements > 0 ? f.elements : 11'175'000;
  const size_t bytes = static_cast<size_t>(n) * sizeof(float);
  std::byte* memory = sums.allocate(bytes);
  const Memory host = backend.allocate_host(bytes);
  const std::span<float> data{reinterpret_cast<float*>(host.data()), static_cast<size_t>(n)};
  const auto value = [](int rank, int64_t i) {
    return static_cast<float>(rank + 1) * 0.1f + static_cast<float>(i % 1000) * 1e-3f;
  };
  for (int64_t i = 0; i < n; ++i) data[static_cast<size_t>(i)] = value(comm.rank(), i);
  backend.copy(memory, host.data(), bytes);
  auto reduce = sums.all_reduce({reinterpret_cast<float*>(memory), static_cast<size_t>(n)});
  comm.barrier();  // nobody allocates any more, which may have to wait for a device
  reduce->launch();
  backend.copy(host.data(), memory, bytes);
  backend.wait();

  // The result against the tree, bit by bit.
  TreeSum tree(kChainBlock, comm.size());
  std::vector<float> leaf(kChainBlock), sum(kChainBlock);
  bool same = true;
  for (int64_t at = 0; at + kChainBlock <= n; at += kChainBlock) {
    for (int r = 0; r < comm.size(); ++r) {
      for (int64_t i = 0; i < kChainBlock; ++i) leaf[static_cast<size_t>(i)] = value(r, at + i);
      tree.push(leaf.data());
    }
    tree.finish(sum.data());
    same = same && std::memcmp(sum.data(), &data[static_cast<size_t>(at)], kChainBlock * sizeof(float)) == 0;
  }
  if (any_rank(comm, !same)) fail(ExitCode::bug, "the sum over ranks differs from the tree");

  std::fill(data.begin(), data.end(), 0.0f);  // repeated sums must not overflow
  backend.copy(memory, host.data(), bytes);
  comm.barrier();
  const Spread time = time_windows(comm, f, [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) reduce->launch();
    backend.wait();
  });
  reduce.reset();
  device.finish();
  if (comm.rank() != 0) return 0;
  char text[256];
  std::snprintf(text, sizeof text,
                "sum of %.1f MB over %d ranks (%s): %.2f ms (%.2f - %.2f), equal to the tree bit by bit",
                static_cast<double>(n) * 4e-6, comm.size(), sums.description().c_str(), 1e3 * time.median,
                1e3 * time.min, 1e3 * time.max);
  print(f,
        {{"bench", "reduce"},
         {"bytes", n * 4},
         {"ranks", comm.size()},
         {"ms", 1e3 * time.median},
         {"ms_min", 1e3 * time.min},
         {"ms_max", 1e3 * time.max},
         {"equal_to_tree", true}},
        text);
  return 0;
}

}  // namespace

int verb_bench(const Words& words) {
  CLI::App app("Throughput here: of the training step, of its data, of the update, of the sum over ranks.",
               "cifar-train bench");
  BenchFlags f;
  app.add_option("what", f.what, "step | data | update | reduce")
      ->check(CLI::IsMember({"step", "data", "update", "reduce"}));
  app.add_option("--config", f.config, "the configuration whose step is timed");
  app.add_option("--set", f.sets, "KEY=VALUE, repeatable")->allow_extra_args(false);
  app.add_option("--ranks", f.ranks, "ranks as threads: a number or auto");
  app.add_option("--elements", f.elements, "update, reduce: how many")->check(CLI::PositiveNumber);
  app.add_option("--windows", f.windows, "timed windows, whose median is printed")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", f.window, "of one window")->check(CLI::Range(0.001, 60.0));
  app.add_flag("--ops", f.operations, "step on one rank: each operation against the device's measured peaks");
  app.add_option("--device", f.device, "auto | cpu | cuda | cuda:N")->check(device_problem);
  app.add_option("--cuda-path", f.cuda_path, "where cuDNN and cuBLAS are looked for first");
  app.add_flag("--json", f.json, "one JSON object instead of text");
  if (!parse(app, words)) return 0;

  std::vector<std::string> warnings;
  Config config = load_config({.files = {locate_config(f.config)}, .sets = f.sets}, &warnings);
  if (!f.device.empty()) config.device = f.device;
  if (!f.cuda_path.empty()) config.cuda.path = f.cuda_path;
  const int ranks = rank_count(config, f.ranks);
  if (f.what == "step" || f.what == "data") batch_for(config.batch, ranks);
  const bool device_update = f.what == "update" && !f.device.empty() && wants_cuda(config);
  if (device_update && ranks > 1) fail(ExitCode::usage, "bench update measures one GPU: leave --ranks out");
  if (device_update) return bench_device_update(f, config);
  if (f.what != "update" && launch_rank() == 0) warn(gpu_left_out(config));
  return run_job(ranks, [&](Communicator& comm) {
    if (f.what == "update") return bench_update(f, comm);
    if (f.what == "data") return bench_data(f, config, comm);
    if (f.what == "reduce") return bench_reduce(f, config, comm);
    return bench_step(f, config, comm);
  });
}

}  // namespace ct
