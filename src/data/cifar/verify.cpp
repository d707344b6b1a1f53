#include <fmt/format.h>

#include "base/paths.h"
#include "base/sha256.h"
#include "data/cifar/cifar_kind.h"
#include "data/synthetic/synthetic.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

/// `expected_sha256` empty: unknown. `sha1`, if given, gets that of a whole file.
FileReport inspect_file(const fs::path& path, int64_t records, Depth depth, std::string_view expected_sha256,
                        std::string* sha1) {
  FileReport report = report_of(path, [&](FileReport& file) {
    if (file.problem = is_there(path, ExitCode::data) ? "" : "no such file"; !file.problem.empty()) return;
    const MappedFile map(path, MappedFile::Links::follow, ExitCode::data);
    const auto* const data = reinterpret_cast<const uint8_t*>(map.bytes().data());
    file.bytes = map.bytes().size();
    file.records = static_cast<int64_t>(file.bytes / kRecordBytes);
    file.problem = batch_problem(map.bytes(), records);
    if (depth == Depth::names_and_sizes) return;
    for (int64_t i = 0; i < file.records && file.problem.empty(); ++i) {
      const uint8_t* const record = data + static_cast<size_t>(i) * kRecordBytes;
      const std::string fault = record_problem({record, kRecordBytes}, record[0], kCifarClasses);
      if (!fault.empty()) file.problem = str("record ", i, " ", fault);
    }
    if (file.problem.empty()) {
      file.sha256 = sha256_hex(data, file.bytes);
      if (sha1 != nullptr) *sha1 = sha1_hex(map.bytes());
    }
    map.require_unchanged(ExitCode::data);
  });
  if (report.problem.empty() && !expected_sha256.empty() && report.sha256 != expected_sha256)
    report.problem = str("bytes differ from the set's: SHA-256 should be ", expected_sha256);
  return report;
}

}  // namespace

std::string note_of_published(std::span<const std::string> sha1) {
  const std::vector<std::string> names = all_batch_files();
  std::vector<std::string> others;
  bool some = false;
  for (size_t i = 0; i < names.size(); ++i) {
    if (sha1[i] == kCifarSha1[i])
      some = true;
    else if (!sha1[i].empty())
      others.push_back(names[i]);
  }
  if (others.empty()) return "";
  if (!some)
    return str("no file has the checksum of a published one of ", kCifarName,
               ": its images in another encoding or order, changed ones, or others");
  return fmt::format(
      "{}: differs from the published file, although other files are as published: damaged, or changed by hand; {}",
      fmt::join(others, ", "), data_remedy(/*synthetic=*/false));
}

std::vector<FileReport> verify_batches(const fs::path& folder, const OpenOptions&, Depth depth) {
  if (!is_folder(folder, ExitCode::data)) fail(ExitCode::data, folder.string(), ": no such folder; check data.path");
  read_class_names(folder);  // refuses damaged ones
  const bool synthetic = is_synthetic_folder(folder);
  const int64_t records = records_per_file(folder);
  std::vector<FileReport> reports;
  std::vector<std::string> sha1(kCifarSha1.size());
  for (const std::string& name : all_batch_files()) {
    const size_t i = reports.size();
    reports.push_back(inspect_file(folder / name, records, depth,
                                   synthetic && depth == Depth::every_byte ? synthetic_sha256(i, records) : "",
                                   synthetic ? nullptr : &sha1[i]));
  }
  name_twins(reports);
  if (const std::string note = note_of_published(sha1); !note.empty()) reports.front().notes.push_back(note);
  return reports;
}

}  // namespace ct
