#include "cli/sweep/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "metrics/metrics_log.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

/// The latest complete record of steps.
Json latest_step(const Path& metrics) {
  constexpr std::streamoff kTail = 4096;
  std::ifstream file(metrics, std::ios::binary | std::ios::ate);
  if (!file) return {};
  file.seekg(std::max<std::streamoff>(file.tellg() - kTail, 0));
  Json latest;
  for (std::string line; std::getline(file, line);) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_object() && record.value("event", Json()) == "step") latest = record;
  }
  return latest;
}

}  // namespace

RunProgress progress_of(const Path& run, const Config& config) {
  const Json step = latest_step(run / kMetricsFile);
  const auto number = [&](const char* key) { return step.value(key, Json()).is_number(); };
  if (!step.is_object() || !number("epoch") || !number("step")) return {.text = "prepares"};
  const auto done = step["step"].get<int64_t>(), epoch = step["epoch"].get<int64_t>();
  const auto& [epochs, steps] = std::pair(config.train.epochs, config.train.max_steps);
  RunProgress progress{.text = steps > 0 ? str("step ", done, "/", steps)
                                         : str("epoch ", epoch, "/", epochs, ", step ", done)};
  if (number("loss")) progress.text += fmt::format(", loss {:.3f}", step["loss"].get<double>());
  if (number("seconds_left")) progress.seconds_left = step["seconds_left"].get<double>();
  return progress;
}

double work_of(const Config& config) {
  return static_cast<double>(config.train.max_steps > 0 ? config.train.max_steps : config.train.epochs);
}

}  // namespace ct
