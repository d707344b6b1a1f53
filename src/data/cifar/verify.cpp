#include "data/cifar/verify.h"

#include "base/paths.h"
#include "base/sha256.h"
#include "data/cifar/cifar_set.h"
#include "data/cifar/published.h"
#include "data/synthetic/synthetic.h"
#include "data/twins.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

/// `expected_sha256` empty: unknown. `sha1`, if given, gets that of a whole file.
FileReport inspect_file(const fs::path& path, int64_t records, std::string_view expected_sha256, std::string* sha1) {
  FileReport report;
  report.path = path;
  try {
    if (!is_there(path, ExitCode::data)) {
      report.problem = "no such file";
      return report;
    }
    const MappedFile map(path, MappedFile::Links::follow, ExitCode::data);
    const auto* const data = reinterpret_cast<const uint8_t*>(map.bytes().data());
    report.bytes = map.bytes().size();
    report.sha256 = sha256_hex(data, report.bytes);
    report.records = static_cast<int64_t>(report.bytes / kRecordBytes);
    report.problem = batch_problem(map.bytes(), records);
    for (int64_t i = 0; i < report.records && report.problem.empty(); ++i)
      if (const int label = data[static_cast<size_t>(i) * kRecordBytes]; label >= kCifarClasses)
        report.problem = str("record ", i, " has label ", label, ", the classes are 0 to ", kCifarClasses - 1);
    if (sha1 != nullptr && report.problem.empty()) *sha1 = sha1_hex(map.bytes());
    map.require_unchanged(ExitCode::data);
  } catch (const Error& unreadable) {
    if (unreadable.code() == ExitCode::memory) throw;
    report.problem = unreadable.what();
  }
  if (report.problem.empty() && !expected_sha256.empty() && report.sha256 != expected_sha256)
    report.problem = str("bytes differ from the set's: SHA-256 should be ", expected_sha256);
  return report;
}

}  // namespace

std::vector<FileReport> inspect_files(const fs::path& folder) {
  if (!is_folder(folder, ExitCode::data)) fail(ExitCode::data, folder.string(), ": no such folder; check data.path");
  read_class_names(folder);  // refuses damaged ones
  const bool synthetic = is_synthetic_folder(folder);
  const int64_t records = records_per_file(folder);
  std::vector<FileReport> reports;
  std::vector<std::string> sha1(kCifarSha1.size());
  for (Split split : {Split::train, Split::test}) {
    for (const std::string& name : batch_files(split)) {
      const size_t i = reports.size();
      reports.push_back(inspect_file(folder / name, records, synthetic ? synthetic_sha256(i, records) : "",
                                     synthetic ? nullptr : &sha1[i]));
    }
  }
  name_twins(reports);
  if (const std::string note = note_of_published(sha1); !note.empty()) reports.front().notes.push_back(note);
  return reports;
}

}  // namespace ct
