#include "fetch/unpack.h"

#include <fcntl.h>

#include <set>
#include <vector>

#include "base/gzip_input.h"
#include "base/new_folder.h"
#include "base/tar_reader.h"

namespace ct {
namespace {

constexpr uint64_t kMostUnpacked = uint64_t{1} << 30;  // bytes; CIFAR's archives have 184 MB

}  // namespace

void unpack_tar(FileSystem& files, const Path& archive, const std::string& top, const Path& folder) {
  TarReader tar(archive, kMostUnpacked, ExitCode::data);
  std::set<std::string> written;
  while (const auto member = tar.next()) {
    const Path path = member->name;
    const std::string name = path.filename().string();
    if (path.parent_path() != top || name.empty() || name == "." || name == "..") continue;
    if (!written.insert(name).second)
      fail(ExitCode::data, archive.string(), ": has two files ", in_quotes(member->name));
    write_new_file(files, folder / name, tar.content());
  }
  if (written.empty()) fail(ExitCode::data, archive.string(), ": has no files in ", top, "/");
}

void unpack_gzip(FileSystem& files, const Path& compressed, const Path& to) {
  GzipInput input(compressed, kMostUnpacked, ExitCode::data);
  File file(files, to, O_WRONLY | O_CREAT | O_EXCL);
  std::vector<std::byte> block(size_t{1} << 20);
  while (const size_t n = input.read(block)) file.write(std::span(block).first(n));
  file.sync();
  file.close();
}

}  // namespace ct
