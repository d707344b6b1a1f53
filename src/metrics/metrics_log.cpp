#include "metrics/metrics_log.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"

namespace ct {
namespace {

/// All scalars of step and eval records.
constexpr const char* kColumns[] = {
    "event", "step",      "epoch",      "split",   "loss",    "accuracy",        "top5",          "images",
    "lr",    "grad_norm", "loss_scale", "skipped", "samples", "samples_per_sec", "wait_fraction", "seconds_left"};

Path jsonl_path(const Path& run) { return run / "metrics.jsonl"; }
Path csv_path(const Path& run) { return run / "metrics.csv"; }

bool is_record(const Json& json) {
  return json.is_object() && json.value("event", Json("")).is_string() &&
         json.value("step", Json(0)).is_number_integer();
}

bool kept(const Json& record, int64_t step) {
  const int64_t at = record.value("step", int64_t{0});
  const std::string event = record.value("event", "");
  if (event == "eval" || event == "end") return at < step;
  return at <= step;
}

}  // namespace

Json record_in(std::string_view line) {
  if (line.size() > kLongestRecord) return Json(Json::value_t::discarded);
  return Json::parse(line, nullptr, /*allow_exceptions=*/false);
}

void each_line(const Path& path, const std::function<void(std::string_view line, bool is_whole)>& use) {
  const MappedFile file(path);
  std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    use(rest.substr(0, end), end != rest.npos);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  file.require_whole(ExitCode::io);
}

std::string csv_header() { return joined(kColumns, ","); }

std::optional<std::string> csv_line(const Json& record) {
  const std::string event = record.value("event", "");
  if (event != "step" && event != "eval") return std::nullopt;
  return joined(kColumns, ",", [&](const char* column) {
    const auto at = record.find(column);
    if (at == record.end() || at->is_null() || at->is_structured()) return std::string();
    return at->is_string() ? at->get<std::string>() : at->dump();
  });
}

namespace {

constexpr size_t kWritten = 1 << 20;  // bytes at once

LineFile open_records(FileSystem& files, const Path& path) { return {files, path}; }

std::string beginning(const Path& path, size_t bytes) {
  const MappedFile file(path);
  std::string text(file.text().substr(0, bytes));
  file.require_whole(ExitCode::io);
  return text;
}

/// Another table is not touched.
LineFile open_table(FileSystem& files, const Path& path) {
  const std::string header = csv_header() + "\n",
                    csv = kind_of(path) == PathKind::file ? beginning(path, header.size()) : "";
  const bool has_header = csv.starts_with(header);  // a run's own was brought up to date by rewind()
  if (!has_header && !header.starts_with(csv))
    fail(ExitCode::usage, in_quotes(path.native()),
         " has different columns from those that this program writes, and its folder has no metrics.jsonl: move it "
         "away");
  LineFile file(files, path);
  if (!has_header) file.append(csv_header());
  return file;
}

}  // namespace

MetricsLog::MetricsLog(FileSystem& files, const Path& run)
    : files_(files), jsonl_{jsonl_path(run), open_records}, csv_{csv_path(run), open_table} {
  for (Lines* lines : {&jsonl_, &csv_}) lines->file.emplace(lines->open(files_, lines->path));
}

void MetricsLog::write(const Json& record) {
  jsonl_.waiting.push_back(record.dump());
  if (auto line = csv_line(record)) csv_.waiting.push_back(*std::move(line));
  try {
    write_waiting();
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    problem_ = e.what();
  }
}

void MetricsLog::sync() {
  write_waiting();
  for (Lines* lines : {&jsonl_, &csv_}) lines->file->sync();
}

void MetricsLog::write_waiting() {
  for (Lines* lines : {&jsonl_, &csv_}) {
    if (!lines->file->in_place()) news_ += str(news_.empty() ? "" : "; ", reopen(*lines));
    for (; !lines->waiting.empty(); lines->waiting.pop_front()) lines->file->append(lines->waiting.front());
  }
  problem_.clear();
}

/// Keeps what cannot be gone on with, which is no reason to end a run that trains. Returns a warning.
std::string MetricsLog::reopen(Lines& lines) {
  std::string kept;
  try {
    lines.file.emplace(lines.open(files_, lines.path));
  } catch (const Error& e) {
    const PathKind kind = kind_of(lines.path);
    if (e.code() != ExitCode::usage && (kind == PathKind::file || kind == PathKind::nothing)) throw;
    const Path aside = free_name_for(lines.path);
    rename_file(files_, lines.path, aside);
    lines.file.emplace(lines.open(files_, lines.path));
    kept = str("; what was put there is kept as ", in_quotes(aside.filename().native()));
  }
  return str(
      in_quotes(lines.path.native()),
      " was removed or replaced while the run was using it: records from now on are in the file of that name, and "
      "earlier ones are lost unless there is a copy",
      kept);
}

std::string MetricsLog::rewind(FileSystem& files, const Path& run, int64_t step) {
  const std::string name = in_quotes(jsonl_path(run).native());
  if (!is_there(jsonl_path(run)))
    return step > 0 ? str(name, " is missing: records up to step ", step, " are lost unless there is a copy") : "";
  std::string first;
  int64_t newest = 0, unreadable = 0, records = 0;
  const auto copy = [&](File& jsonl_file, File& csv_file) {
    std::string jsonl, csv = csv_header() + "\n";
    const auto write = [](File& file, std::string& text) {
      file.write(text);
      text.clear();
    };
    each_line(jsonl_path(run), [&](std::string_view line, bool is_whole) {
      const Json record = record_in(line);
      const bool cut_off = !is_whole && line.find('\0') == line.npos;
      if (!is_record(record) && !cut_off && !line.empty()) ++unreadable;
      if (!is_record(record) || !kept(record, step)) return;
      const int64_t at = record.value("step", int64_t{0});
      if (at < newest && record.value("event", "") == "eval")
        return;  // of the best weights at an end, which comes again
      newest = std::max(newest, at);
      if (records++ == 0) first = record.value("event", "");
      jsonl.append(line) += '\n';
      if (const auto row = csv_line(record)) csv += *row + "\n";
      if (jsonl.size() > kWritten) write(jsonl_file, jsonl), write(csv_file, csv);
    });
    write(jsonl_file, jsonl), write(csv_file, csv);
  };
  write_file_atomic(files, jsonl_path(run), [&](File& jsonl) {
    write_file_atomic(files, csv_path(run), [&](File& csv) { copy(jsonl, csv); });
  });
  if (unreadable > 0)
    return str(name, ": ", counted(unreadable, "line"),
               unreadable == 1 ? " is no record and was" : " are no records and were",
               " removed: the file was damaged, so that earlier records may be missing");
  if (step > 0 && first != "start")
    return str(name, " does not begin with the run's start: earlier records are lost unless there is a copy");
  return "";
}

}  // namespace ct
