// A published file that is complete and verified, or an error: never another file.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "fetch/published.h"
#include "metrics/console.h"

namespace ct {

struct DownloadOptions {
  std::vector<std::string> mirrors;  // addresses of folders with the published files, in place of Published::servers
  std::chrono::seconds stall{30};    // HttpRequest::stall
  bool tells_waiting = true;         // a note that another process is downloading
};

/// What is wrong with the file, for which the checksum decides: "a web page, ...", "its MD5 is ..., not ...". Empty:
/// it is the published one. Error(data) if it cannot be read.
std::string difference(const Path& path, const PublishedFile& published);

/// "MD5 c32a1d4a..."
std::string checksum_text(const PublishedFile& file);

/// A file that one process of the host downloads; the others wait for its lock. What a killed process has left is
/// continued.
class Download {
 public:
  /// Takes the lock of `partial`, which is created if it is not there. `make_folder` makes its folder again, which
  /// another process may have removed while this one waited. nullopt: that has done what this one wants, as `is_done`
  /// says under the lock.
  static std::optional<Download> begin(FileSystem& files, const Path& partial, const std::function<void()>& make_folder,
                                       const std::function<bool()>& is_done, const DownloadOptions& options,
                                       Console& console);
  Download(Download&&) = default;
  ~Download();

  /// Downloads what is missing of the file, whose checksum then fits. Error(data) with what was wrong at each address.
  void complete(const Published& of, const PublishedFile& file, const DownloadOptions& options, Console& console);
  const Path& path() const { return file_->path(); }
  /// Gives the verified file its name. The file is on the disk.
  void rename(const Path& to);

 private:
  Download(FileSystem& files, File file);
  uint64_t size() const;
  struct Attempt {
    int status = 0;         // of HTTP; 0: none
    bool too_many = false;  // bytes
    std::string problem;    // empty: all came that the server announced
  };
  Attempt attempt(const std::string& address, const PublishedFile& file, std::chrono::seconds stall, Console& console);
  struct Outcome {
    std::string problem;  // empty: the file is complete
    bool gained = false;  // bytes came from which the same address may go on
    bool busy = false;    // the server may have the file at another time
  };
  Outcome try_address(const std::string& address, const PublishedFile& file, std::chrono::seconds stall,
                      Console& console);
  std::string remedy(const PublishedFile& file, const DownloadOptions& options, const Outcome& all) const;

  FileSystem* files_;
  std::unique_ptr<File> file_;
};

}  // namespace ct
