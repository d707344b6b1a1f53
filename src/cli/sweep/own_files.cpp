#include "cli/sweep/own_files.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "metrics/metrics_log.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

constexpr std::string_view kSeal = "cifar-train sweep, CRC32C ";

bool is_sealed(const std::string& text) {
  const size_t seal = text.find(kSeal), line = text.find('\n');
  return line != std::string::npos && seal < line &&
         text.substr(seal + kSeal.size(), 8) == crc_text(crc32c(std::string_view(text).substr(line + 1)));
}

/// A crash may leave an empty file.
bool are_records(const std::string& text) {
  const Json first = Json::parse(text.substr(0, text.find('\n')), nullptr, /*allow_exceptions=*/false);
  return text.empty() || (first.is_object() && first.value("event", Json()) == "sweep");
}

bool is_own(const Path& path, bool (*accepts)(const std::string&)) {
  const PathKind kind = kind_of(path);
  return kind == PathKind::nothing || (kind == PathKind::file && accepts(read_file(path)));
}

}  // namespace

std::string sealed_sweep_file(const std::string& text, const char* open, const char* close) {
  return str(open, kSeal, crc_text(crc32c(text)), close, "\n", text);
}

void require_own_sweep_files(const Path& out) {
  if (holds_run(out))
    fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " holds a run: give the sweep another --output");
  const std::pair<std::string_view, bool (*)(const std::string&)> files[] = {
      {kSweepRecords, are_records}, {kSweepTable, is_sealed}, {kSweepResults, is_sealed}, {kSweepPlot, is_sealed}};
  for (const auto& [name, accepts] : files)
    if (!is_own(out / name, accepts))
      fail(ExitCode::usage, in_quotes((out / name).native()),
           " was not written by this program, or was edited since, and a sweep would replace it: move it away, or give "
           "another --output");
}

}  // namespace ct
