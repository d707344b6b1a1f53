#include "cli/sweep/progress.h"

#include <algorithm>
#include <fstream>

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

std::string brief_progress(const std::string& line) {
  std::string brief;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find("  ", begin), line.size());
    const std::string field = line.substr(begin, end - begin);
    if (begin == 0 || field.starts_with("step ") || field.starts_with("loss "))
      brief += (begin == 0 ? "" : ", ") + field;
    begin = end + 2;
  }
  return brief;
}

std::optional<double> seconds_left_of(const Path& run) {
  const Json step = latest_step(run / kMetricsFile);
  const auto left = step.is_object() ? step.value("seconds_left", Json()) : Json();
  return left.is_number() ? std::optional(left.get<double>()) : std::nullopt;
}

double work_of(const Config& config) {
  return static_cast<double>(config.train.max_steps > 0 ? config.train.max_steps : config.train.epochs);
}

}  // namespace ct
