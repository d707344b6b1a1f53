// CSV files as DeepSpeed's csv_monitor writes them (monitor/csv_monitor.py): one for each tag, named after it with '_'
// for
// '/', that begins with "step,<last part of the tag>"; rows x,value; lines end in CR LF, as Python's csv module has it.
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
  /// Is what a row has at `x` still true?
  using Keep = std::function<bool(std::string_view tag, int64_t x)>;

  /// Writes into `folder`, which is made if need be. `keep`: for a run that goes on. Of each file's last part, from its
  /// last header, rows stay that it accepts, and new rows follow. Absent, for a new run: whatever a file has stays, and
  /// a part of its own begins, as in DeepSpeed.
  CsvSeries(FileSystem& files, Path folder, std::optional<Keep> keep);
  /// Appends a row, or throws Error(io); also where the file is not one of these. `files` must live.
  void write(std::string_view tag, int64_t x, double value);

 private:
  LineFile open(std::string_view tag);

  FileSystem& files_;
  Path folder_;
  std::optional<Keep> keep_;
  std::map<std::string, LineFile, std::less<>> open_;
};

}  // namespace ct
