// CSV files in the format of DeepSpeed's csv_monitor (monitor/csv_monitor.py): one for each tag, with the tag as its
// name ('_' instead of '/'). A file begins with "step,<last part of the tag>"; rows are x,value; lines end in CR LF, as
// in Python's csv module.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"

namespace ct {

class CsvSeries {
 public:
  /// Is a row at `x` still valid?
  using Keep = std::function<bool(std::string_view tag, int64_t x)>;

  /// Writes into `folder`, which is created if necessary. `keep` is for a resumed run: in each file's last part, from
  /// its last header on, the rows that it accepts are kept, and new rows follow. nullopt, for a new run: each file
  /// keeps its content, and a new header is appended, as in DeepSpeed.
  CsvSeries(FileSystem& files, Path folder, std::optional<Keep> keep);
  /// Appends a row. Throws Error(io), also if the file is not such a CSV file.
  void write(std::string_view tag, int64_t x, double value);
  /// Returns once all rows are on the disk.
  void sync();

 private:
  LineFile open(std::string_view tag);

  FileSystem& files_;
  Path folder_;
  std::optional<Keep> keep_;
  std::map<std::string, LineFile, std::less<>> open_;
};

}  // namespace ct
