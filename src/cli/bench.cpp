// cifar-train bench: how fast the step, its operations, evaluation, data, the update and the sum over ranks are here.
// Medians of windows; nothing is written but the synthetic set where it is missing.
#include "cli/bench/bench.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/seconds.h"
#include "cli/config_lookup.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "metrics/console.h"
#include "train/agree.h"
#include "train/config/load.h"
#include "train/session.h"

namespace ct {

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

Spread time_windows(Communicator& comm, const BenchFlags& f, const std::string& what,
                    const std::function<void(int64_t)>& work) {
  f.progress("warming up: " + what);
  work(2);  // warm up
  const double once = std::max(seconds_of([&] { work(4); }) / 4, 1e-9);
  const int64_t count = broadcast_value(comm, std::max<int64_t>(1, static_cast<int64_t>(f.window / once)));
  std::vector<double> times;
  for (int w = 0; w < f.windows; ++w) {
    f.progress(str("timing ", what, ": window ", w + 1, "/", f.windows));
    comm.barrier();
    times.push_back(seconds_of([&] {
                      work(count);
                      comm.barrier();
                    }) /
                    static_cast<double>(count));
  }
  f.progress("");
  return spread(times);
}

void print(const BenchFlags& f, const Json& result, const std::string& text) {
  std::printf("%s\n", f.json ? result.dump().c_str() : text.c_str());
}

int verb_bench(const Words& words) {
  CLI::App app(
      "Measures throughput: of the training step, of evaluation, of data, of the update, or of the sum over ranks.",
      "cifar-train bench");
  BenchFlags f;
  app.add_option("what", f.what, "step | eval | data | update | reduce")
      ->check(CLI::IsMember({"step", "eval", "data", "update", "reduce"}));
  ConfigWords files;
  add_config_options(app, files);
  app.add_option("--optimizer", f.optimizer, "update: the optimizer, with its default parameters");
  app.add_option("--ranks", f.ranks, "ranks as threads: a number or auto")->type_name("N");
  app.add_option("--elements", f.elements, "update, reduce: the number of elements")->check(positive_problem);
  app.add_option("--windows", f.windows, "number of timed windows; their median is printed")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", f.window, "length of a window in seconds")->check(number_between(0.001, 60));
  app.add_flag("--ops", f.operations,
               "step: times each operation on one rank and compares it with the device's measured peaks");
  app.add_flag("--large", f.large,
               "--ops: also times memory-bound operations on tensors of 256 MiB and compares them with a copy");
  add_device_options(app, files);
  app.add_flag("--json", f.json, "one JSON object instead of text");
  if (!parse(app, words)) return 0;
  if (f.operations && f.what != "step") fail(ExitCode::usage, "--ops belongs to bench step, not to bench ", f.what);
  if (f.large && !f.operations) fail(ExitCode::usage, "--large belongs to bench --ops: add --ops");
  if (app.count("--elements") > 0 && f.what != "update" && f.what != "reduce")
    fail(ExitCode::usage, "--elements belongs to bench update and reduce, not to bench ", f.what);

  if (!f.optimizer.empty() && f.what != "update")
    fail(ExitCode::usage, "--optimizer belongs to bench update, not to bench ", f.what);

  std::vector<std::string> warnings;
  if (!f.optimizer.empty()) files.sets.insert(files.sets.begin(), "optimizer.type=" + f.optimizer);
  const ConfigSources sources = locate_configs(files, &warnings);
  Config config = load_config(sources, &warnings);
  settle_bf16(config);
  const int ranks = rank_count(config, f.ranks);
  require_connection(config, detect_launch());
  if (f.operations && ranks > 1)
    fail(ExitCode::usage, "--ops times operations on one rank, not on ", ranks,
         ": leave --ranks out, or give --ranks 1");
  if (f.what == "step" || f.what == "eval" || f.what == "data") batch_for(config.batch, ranks);
  const bool device_update = f.what == "update" && app.count("--device") > 0 && wants_cuda(config);
  if (device_update && ranks > 1) fail(ExitCode::usage, "bench update measures one GPU: leave --ranks out");
  const auto shown_by = [&](Console& console) {
    BenchFlags own = f;
    own.progress = [&](const std::string& what) { console.progress(what); };
    return own;
  };
  if (device_update) {
    Console console(true, Verbosity::normal);
    return bench_device_update(shown_by(console), config);
  }
  if (f.what != "update" && launch_rank() == 0) warn(gpu_left_out(config));
  return run_job(ranks, [&](Communicator& comm) {
    Console console(comm.rank() == 0, Verbosity::normal);
    const BenchFlags own = shown_by(console);
    if (f.what == "update") return bench_update(own, config, comm);
    if (f.what == "eval") return bench_eval(own, config, comm);
    if (f.what == "data") return bench_data(own, config, comm);
    if (f.what == "reduce") return bench_reduce(own, config, comm);
    return bench_step(own, config, comm);
  });
}

}  // namespace ct
