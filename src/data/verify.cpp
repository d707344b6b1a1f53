#include "data/verify.h"

#include <cmath>

#include "base/paths.h"
#include "base/sha256.h"
#include "data/synthetic.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

FileReport inspect_file(const fs::path& path, int64_t records, std::string_view expected_sha256) {
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
    report.problem = size_problem(report.bytes, records);
    for (int64_t i = 0; i < report.records; ++i) {
      const int label = data[i * kRecordBytes];
      if (label < kImageClasses) {
        ++report.per_class[label];
      } else if (++report.bad_labels == 1 && report.problem.empty()) {
        report.problem = str("record ", i, " has label ", label, ", the classes are 0 to ", kImageClasses - 1);
      }
    }
    map.require_unchanged(ExitCode::data);
  } catch (const Error& unreadable) {
    if (unreadable.code() == ExitCode::memory) throw;
    report.problem = unreadable.what();
  }
  if (report.problem.empty() && !expected_sha256.empty() && report.sha256 != expected_sha256) {
    report.problem = str("bytes differ from the set's: SHA-256 should be ", expected_sha256);
  }
  return report;
}

}  // namespace

std::vector<FileReport> inspect_files(const fs::path& folder) {
  if (!is_folder(folder, ExitCode::data)) fail(ExitCode::data, folder.string(), ": no such folder; check data.path");
  const bool synthetic = is_synthetic_folder(folder);
  const int64_t records = records_per_file(folder);
  std::vector<FileReport> reports;
  for (Split split : {Split::train, Split::test}) {
    for (const std::string& name : batch_files(split)) {
      const std::string expected = synthetic ? synthetic_sha256(reports.size(), records) : "";
      reports.push_back(inspect_file(folder / name, records, expected));
    }
  }
  return reports;
}

ChannelStatistics channel_statistics(const ImageSet& set) {
  constexpr int kPlane = kImageSide * kImageSide;
  std::array<uint64_t, kImageChannels> sums{}, squares{};
  for (int64_t i = 0; i < set.count(); ++i) {
    for (int c = 0; c < kImageChannels; ++c) {
      const uint8_t* const plane = set.pixels(i) + c * kPlane;
      uint32_t sum = 0, square = 0;  // 1,024 * 255^2 fits
      for (int j = 0; j < kPlane; ++j) {
        sum += plane[j];
        square += uint32_t{plane[j]} * plane[j];
      }
      sums[c] += sum;
      squares[c] += square;
    }
  }
  ChannelStatistics statistics;
  const double pixels = static_cast<double>(set.count()) * kPlane;
  for (int c = 0; c < kImageChannels; ++c) {
    const double mean = static_cast<double>(sums[c]) / pixels;
    statistics.mean[c] = mean / 255;
    statistics.std[c] = std::sqrt(static_cast<double>(squares[c]) / pixels - mean * mean) / 255;
  }
  return statistics;
}

std::array<int64_t, kImageClasses> class_counts(const ImageSet& set) {
  std::array<int64_t, kImageClasses> counts{};
  for (int64_t i = 0; i < set.count(); ++i) ++counts[set.label(i)];
  return counts;
}

}  // namespace ct
