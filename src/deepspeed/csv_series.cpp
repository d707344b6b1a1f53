#include "deepspeed/csv_series.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "metrics/step_line.h"
#include "train/config/foreign.h"

namespace ct {
namespace {

constexpr std::string_view kEnd = "\r\n", kSuffix = ".csv";

std::string file_name(std::string_view tag) {
  std::string name(tag);
  std::ranges::replace(name, '/', '_');
  return name.append(kSuffix);
}

std::string header_of(std::string_view tag) { return str("step,", tag.substr(tag.rfind('/') + 1)); }

/// What a power failure may leave of a file that has just begun.
bool is_cut_off(std::string_view text, const std::string& header) {
  return (header + std::string(kEnd)).starts_with(text) || text.find_first_not_of('\0') == std::string_view::npos;
}

/// `text` without the rows of its last part that `keep` refuses or that a power failure has damaged.
std::string kept(std::string_view text, const std::string& header, const std::function<bool(int64_t)>& keep) {
  const size_t last = text.rfind(header + std::string(kEnd));
  std::string result(text.substr(0, last));
  for (std::string_view rest = text.substr(last); !rest.empty();) {
    const size_t end = rest.find(kEnd);
    if (end == std::string_view::npos) break;  // a crash cut it off
    const std::string_view row = rest.substr(0, end + kEnd.size());
    int64_t x = 0;
    const bool is_row = std::from_chars(row.data(), row.data() + row.size(), x).ec == std::errc();
    if (is_row ? keep(x) : row.find('\0') == std::string_view::npos) result += row;
    rest.remove_prefix(row.size());
  }
  return result;
}

}  // namespace

CsvSeries::CsvSeries(FileSystem& files, Path folder, std::optional<Keep> keep)
    : files_(files), folder_(std::move(folder)), keep_(std::move(keep)) {
  make_folders(files_, folder_);
}

LineFile CsvSeries::open(std::string_view tag) {
  const Path path = folder_ / file_name(tag);
  const std::string header = header_of(tag);
  std::string old = kind_of(path) == PathKind::file ? read_file(path) : "";
  if (!old.empty() && is_cut_off(old, header)) {
    write_file_atomic(files_, path, "");
    old.clear();
  } else if (is_there(path) && !is_csv_series(path)) {
    fail(ExitCode::io, in_quotes(path.native()), " is not a file of csv_monitor: move it away");
  }
  const bool begins = !keep_ || old.find(header + std::string(kEnd)) == std::string::npos;
  if (!begins) {
    const std::string now = kept(old, header, [&](int64_t x) { return (*keep_)(tag, x); });
    if (now != old) write_file_atomic(files_, path, now);
  }
  LineFile file(files_, path);
  if (begins) file.append(header + "\r");
  return file;
}

void CsvSeries::write(std::string_view tag, int64_t x, double value) {
  auto at = open_.find(tag);
  if (at == open_.end()) at = open_.emplace(tag, open(tag)).first;
  at->second.append(str(x, ",", python_number(value), "\r"));
}

void CsvSeries::sync() {
  for (auto& [tag, file] : open_) file.sync();
}

bool is_csv_series(const Path& path) {
  if (kind_of(path) != PathKind::file) return false;
  const MappedFile file(path);
  const std::string_view text = file.text();
  if (text.empty()) return true;
  constexpr std::string_view kBegin = "step,";
  const size_t end = text.find(kEnd);
  const bool begins = text.starts_with(kBegin) && end != std::string_view::npos;
  file.require_whole(ExitCode::io);
  if (!begins) return false;
  const std::string_view column = text.substr(kBegin.size(), end - kBegin.size());
  return path.filename().native() == file_name(column) || path.filename().native().ends_with("_" + file_name(column));
}

}  // namespace ct
