#include "cli/bench/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/seconds.h"
#include "cli/bench/bench.h"

namespace ct {
namespace {

/// Seconds until the device has done `work`, from when it had nothing to do.
double seconds_on(Backend& backend, const std::function<void()>& work) {
  backend.wait();
  return seconds_of([&] {
    work();
    backend.wait();
  });
}

/// Shares of the peaks; 0 where there is nothing to compare.
struct Shares {
  double flops, bytes;
};
Shares shares(const OpTime& op, const DevicePeaks& peaks) {
  return {peaks.flops > 0 ? op.cost.flops / op.seconds / peaks.flops : 0,
          peaks.bytes > 0 ? op.cost.bytes / op.seconds / peaks.bytes : 0};
}

/// Seconds of one launch. `rewind`: called before at most kMostLaunches + 2 launches, for what the kernel uses up.
double time_kernel(
    Backend& backend, Kernel& kernel, const Resolve& operands, const OpTimingOptions& options,
    const std::function<void()>& rewind = [] {}) {
  constexpr int kMostLaunches = 100;
  const Memory workspace = backend.allocate(kernel.workspace_bytes());
  kernel.bind(operands, workspace.data());
  rewind();
  kernel.launch();  // loads what is loaded on first use
  const double once = seconds_on(backend, [&] { kernel.launch(); });
  const int launches = static_cast<int>(std::clamp(options.window / once, 1.0, double{kMostLaunches}));
  const auto row = [&] {
    for (int i = 0; i < launches; ++i) kernel.launch();
  };
  std::unique_ptr<Replay> replay;
  try {
    if (options.record && kernel.recordable()) replay = backend.record(row);
  } catch (const Error& e) {  // it is timed as it runs then: launch by launch
    if (e.code() == ExitCode::peer) throw;
    backend.wait();  // throws where the device has failed for good
  }
  std::vector<double> times;
  for (int w = 0; w < options.windows; ++w) {
    rewind();
    times.push_back(seconds_on(backend, [&] { replay ? replay->launch() : row(); }) / launches);
  }
  std::nth_element(times.begin(), times.begin() + options.windows / 2, times.end());
  return times[static_cast<size_t>(options.windows / 2)];
}

/// steps[first], and those that the same kernel computes; none if it communicates.
std::vector<const ComputeOp*> operations_at(const Program& steps, size_t first) {
  std::vector<const ComputeOp*> ops;
  for (size_t i = first; i < steps.size() && (i == first || steps[i].merged); ++i)
    if (const auto* op = std::get_if<ComputeOp>(&steps[i].op)) ops.push_back(op);
  return ops;
}

}  // namespace

std::string result_of(const Op& op, const std::vector<Value>& values) {
  const Ids written = writes(op);
  if (written.size() == 0) return "";
  const Value& value = values[static_cast<size_t>(*written.begin())];
  return str(value.name, " ", to_string(value.shape));
}

double time_operation(Backend& backend, const ComputeOp& op, const std::vector<Value>& values, const Resolve& operands,
                      const OpTimingOptions& options) {
  return time_kernel(backend, *backend.prepare(op, values), operands, options);
}

OpTimes time_device_operations(Engine& engine, Backend& backend, const OpTimingOptions& options) {
  const LoweredProgram& program = engine.lowered();
  const Program& micro = program.last.empty() ? program.micro : program.last;
  const Resolve operands = [&](ValueId id) { return engine.bound().tensor(id); };
  OpTimes times{.ops = {}, .step = 0};
  for (const auto& [steps, runs] : {std::pair(&micro, program.distribution.accumulation), {&program.update, 1}}) {
    const std::vector<int> readers = count_readers(*steps, program.values);
    for (size_t i = 0; i < steps->size(); ++i) {
      const std::vector<const ComputeOp*> ops = operations_at(*steps, i);
      if (ops.empty() || (*steps)[i].merged) continue;
      MergedKernel merged{.kernel = nullptr, .name = std::string(name_of(*ops.front()))};
      if (ops.size() > 1) merged = backend.merge(ops, program.values, readers);
      if (!merged.kernel) merged.kernel = backend.prepare(*ops.front(), program.values);
      if (options.progress) options.progress(str("timing operation ", times.ops.size() + 1, ": ", merged.name));
      // Each launch of the step's control takes a row of the schedule.
      const auto rewind = [&] { engine.restore({}); };
      const double seconds = time_kernel(backend, *merged.kernel, operands, options, rewind);
      Cost cost;
      for (const ComputeOp* op : ops) {
        const Cost more = cost_of(*op, program.values);
        cost = {cost.flops + more.flops, cost.bytes + more.bytes};
      }
      times.ops.push_back({merged.name, seconds, cost, result_of(*ops.front(), program.values)});
      times.step += runs * seconds;
    }
  }
  return times;
}

OpTimes time_host_operations(Engine& engine, const std::function<void(const std::string&)>& progress) {
  engine.restore({});  // each run below takes a row of the schedule
  constexpr int kMostRuns = 200, kFewestRuns = 9;
  constexpr double kSeconds = 15;
  std::vector<std::vector<double>> runs;  // of each operation
  double spent = 0;
  for (int i = 0; i < kMostRuns && (i < kFewestRuns || spent < kSeconds); ++i) {
    progress(str("timing operations: step ", i + 1, " of at most ", kMostRuns));
    const auto timings = engine.bound().time_steps();
    runs.resize(timings.size());
    for (size_t k = 0; k < timings.size(); ++k) {
      runs[k].push_back(timings[k].seconds);
      spent += timings[k].seconds;
    }
  }
  const LoweredProgram& program = engine.lowered();
  OpTimes times{.ops = {}, .step = 0, .in_caches = true};
  for (const auto& [steps, repeats] :
       {std::pair(&program.last, program.distribution.accumulation), {&program.update, 1}})
    for (const Step& step : *steps) {
      const double seconds = spread(std::move(runs[times.ops.size()])).median;
      times.ops.push_back({std::string(name_of(step.op)), seconds, cost_of(step.op, program.values),
                           result_of(step.op, program.values)});
      times.step += repeats * seconds;
    }
  return times;
}

std::string table(const OpTimes& times, const DevicePeaks& peaks, const std::string& title) {
  std::string text =
      title + fmt::format("\n  {:<24} {:>10} {:>10} {:>7} {:>10}", "operation", "us", "GFLOP/s", "% peak", "GB/s");
  if (!times.in_caches) text += "  % copy";
  text += "  of";
  double sum = 0;
  for (const OpTime& op : times.ops) {
    const Shares of = shares(op, peaks);
    sum += op.seconds;
    text += fmt::format("\n  {:<24} {:10.2f}", op.name, 1e6 * op.seconds);
    if (op.cost.flops > 0)
      text +=
          fmt::format(" {:10.0f} {:6.{}f}%", op.cost.flops / op.seconds / 1e9, 100 * of.flops, times.in_caches ? 0 : 1);
    else
      text += fmt::format(" {:>10} {:>7}", "", "");
    text += fmt::format(" {:10.1f}", op.cost.bytes / op.seconds / 1e9);
    if (!times.in_caches) text += fmt::format(" {:6.1f}%", 100 * of.bytes);
    text += "  " + op.result;
  }
  return text + fmt::format("\n  {:<24} {:10.2f}", "sum", 1e6 * sum);
}

Json operations(const OpTimes& times, const DevicePeaks& peaks) {
  Json ops = Json::array();
  for (const OpTime& op : times.ops) {
    const Shares of = shares(op, peaks);
    ops.push_back({{"name", op.name},
                   {"result", op.result},
                   {"us", 1e6 * op.seconds},
                   {"gflops", op.cost.flops / op.seconds / 1e9},
                   {"gbytes_per_sec", op.cost.bytes / op.seconds / 1e9},
                   {"peak_share", of.flops},
                   {"copy_share", of.bytes}});
  }
  return ops;
}

void add_operations(Json& result, const OpTimes& times, const DevicePeaks& peaks) {
  result["peaks"] = {{"flops", peaks.flops}, {"copy_bytes_per_sec", peaks.bytes}, {"text", peaks.text}};
  result["ops_us"] = 1e6 * times.step;
  result["ops"] = operations(times, peaks);
}

}  // namespace ct
