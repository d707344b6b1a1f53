#include "train/run_files.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/store.h"
#include "metrics/metrics_log.h"

namespace ct {
namespace {

constexpr std::array kRunFiles = {kConfigFile, kMetricsTable, kLastFile, kBestFile, kTokenFile, kMetricsFile};
constexpr std::string_view kSeal = "# as cifar-train wrote it, CRC32C ";
constexpr uint64_t kLongestHead = 65536;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

bool is_sealed_config(std::string_view text) {
  const size_t seal = text.rfind(kSeal);
  return seal != std::string_view::npos &&
         text.substr(seal) == str(kSeal, crc_text(crc32c(text.substr(0, seal))), "\n");
}

/// Looked for near the beginning, not by reading the header: a damaged file of a run is still the run's.
bool has_marks(std::string_view weights) {
  const std::string_view head = weights.substr(0, kLongestHead);
  return head.find("\"header_crc32c\"") != std::string_view::npos ||
         head.find("\"cifar_train.model\"") != std::string_view::npos;
}

bool is_record_of_a_run(const Json& json) {
  constexpr std::array kEvents = {"start", "step", "eval", "checkpoint", "end"};
  return json.is_object() && json.value("step", Json()).is_number_integer() &&
         std::ranges::find(kEvents, json.value("event", Json())) != kEvents.end();
}

bool has_records(std::string_view text) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);)
    if (is_record_of_a_run(Json::parse(line, nullptr, /*allow_exceptions=*/false))) return true;
  return false;
}

bool is_metrics_table(std::string_view text) { return text.starts_with("event,step,"); }

/// An empty file holds nothing that could be lost.
bool is_own(const Path& path, bool (*accepts)(std::string_view)) {
  const PathKind kind = kind_of(path);
  if (kind == PathKind::nothing) return true;
  if (kind != PathKind::file) return false;
  const MappedFile file(path);
  return file.bytes().empty() || accepts(text_of(file));
}

[[noreturn]] void refuse(const Path& path, std::string_view why) {
  fail(ExitCode::usage, in_quotes(path.native()), " ", why, ": move it away, or give another --output");
}

}  // namespace

bool is_run_file(std::string_view name) {
  if (name.starts_with(kTemporaryPrefix)) name.remove_prefix(kTemporaryPrefix.size());
  return std::find(kRunFiles.begin(), kRunFiles.end(), name) != kRunFiles.end();
}

std::string sealed_config(const std::string& text) { return str(text, kSeal, crc_text(crc32c(text)), "\n"); }

bool holds_run(const Path& out) {
  FileSystem files;
  return (is_folder(out / kCheckpointFolder) && !Store(files, out / kCheckpointFolder, {}).list().empty()) ||
         (kind_of(out / kMetricsFile) == PathKind::file && has_records(text_of(MappedFile(out / kMetricsFile))));
}

void require_own_files(const Path& out) {
  constexpr std::string_view kForeign = "was not written by this program, which would replace it";
  if (!is_own(out / kMetricsFile, has_records)) refuse(out / kMetricsFile, kForeign);
  if (!is_own(out / kMetricsTable, is_metrics_table)) refuse(out / kMetricsTable, kForeign);
  if (!is_own(out / kConfigFile, is_sealed_config))
    refuse(out / kConfigFile, "was not written by this program, or was edited since, and a run would replace it");
  const bool run = holds_run(out);
  for (const std::string_view name : {kLastFile, kBestFile}) {
    if (!is_own(out / name, has_marks)) refuse(out / name, kForeign);
    if (!run && is_there(out / name)) refuse(out / name, "is of another run, and this one would replace it");
  }
}

void require_own_weights(const Path& path) {
  const PathKind kind = kind_of(path);
  if (kind == PathKind::other) return;
  if (kind == PathKind::folder)
    fail(ExitCode::usage, in_quotes(path.native()), " is a folder: give the path of the file to write");
  if (!is_own(path, has_marks))
    fail(ExitCode::usage, in_quotes(path.native()),
         " was not written by this program, which would replace it: give another --out, or remove it first");
}

}  // namespace ct
