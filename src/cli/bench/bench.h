// The common parts of the members of `cifar-train bench`: options and timed windows. Each member has a file of its
// name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "metrics/metrics_log.h"
#include "train/config/config.h"

namespace ct {

struct BenchFlags {
  std::string what = "step", ranks = "1";
  std::string optimizer;  // of bench update; empty: the configuration's
  double window = 0.25;
  int windows = 9;
  int64_t elements = 0;
  bool json = false, operations = false, large = false;
  std::function<void(const std::string&)> progress;  // shows what runs on this rank
};

// Members of `cifar-train bench`: each returns the exit code. All ranks of a job call it, and rank 0 prints.
int bench_step(const BenchFlags& f, const Config& config, Communicator& comm);
int bench_eval(const BenchFlags& f, const Config& config, Communicator& comm);
int bench_data(const BenchFlags& f, const Config& config, Communicator& comm);
int bench_update(const BenchFlags& f, const Config& config, Communicator& comm);
int bench_reduce(const BenchFlags& f, const Config& config, Communicator& comm);
/// The update on one GPU.
int bench_device_update(const BenchFlags& f, const Config& config);

inline constexpr const char* kFewerElements = "use fewer --elements";

struct Spread {
  double min, median, max;
};
Spread spread(std::vector<double> values);

/// All ranks run `work(count)` for each window; rank 0's clock measures it, from barrier to barrier. `what` is timed.
Spread time_windows(Communicator& comm, const BenchFlags& f, const std::string& what,
                    const std::function<void(int64_t)>& work);

/// Prints on stdout: `result` with --json, otherwise `text`.
void print(const BenchFlags& f, const Json& result, const std::string& text);

}  // namespace ct
