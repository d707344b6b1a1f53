#include "as_file.h"
#include "metrics/metrics_log.h"

namespace ct::fuzz::metrics {
namespace {

/// What a resume does with the records.
void read(Input input) {
  as_file("metrics.jsonl", input);
  FileSystem files;
  MetricsLog::rewind(files, folder(), 100);
  MetricsLog(files, folder()).write({{"event", "step"}, {"step", 101}});
}

const Registered registered({.name = "metrics", .refusals = {ExitCode::usage}, .read = read});

}  // namespace
}  // namespace ct::fuzz::metrics
