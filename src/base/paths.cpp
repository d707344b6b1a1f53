#include "base/paths.h"

#include <sys/stat.h>

#include <cerrno>
#include <optional>

namespace ct {
namespace {

enum class Links : bool { followed, seen };

/// Nothing there: nullopt. Any other failure: Error(code).
std::optional<struct stat> ask(Links links, const Path& path, ExitCode code) {
  FileSystem files;
  struct stat info {};
  const int result = uninterrupted(
      [&] { return links == Links::followed ? files.status(path, info) : files.entry_status(path, info); });
  if (result == 0) return info;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  fail_io("look at", path, errno, code);
}

PathKind kind_of(const std::optional<struct stat>& info) {
  if (!info) return PathKind::nothing;
  if (S_ISREG(info->st_mode)) return PathKind::file;
  if (S_ISDIR(info->st_mode)) return PathKind::folder;
  return S_ISLNK(info->st_mode) ? PathKind::link : PathKind::other;
}

}  // namespace

PathKind kind_of(const Path& path, ExitCode code) { return kind_of(ask(Links::followed, path, code)); }
PathKind kind_of_entry(const Path& path, ExitCode code) { return kind_of(ask(Links::seen, path, code)); }

bool same_place(const Path& a, const Path& b, ExitCode code) {
  const auto at_a = ask(Links::followed, a, code), at_b = ask(Links::followed, b, code);
  return at_a && at_b && at_a->st_dev == at_b->st_dev && at_a->st_ino == at_b->st_ino;
}

Path without_links(const Path& path) {
  constexpr int kMostLinks = 40;  // as the kernel follows
  Path at = path;
  std::error_code error;
  // A link to nothing, which the library takes for the end of the path.
  for (int links = 0;
       links < kMostLinks && std::filesystem::is_symlink(at, error) && !std::filesystem::exists(at, error); ++links) {
    const Path target = std::filesystem::read_symlink(at, error);
    if (error) break;
    at = target.is_absolute() ? target : at.parent_path() / target;
  }
  const Path absolute = std::filesystem::absolute(at, error);
  Path real = error ? Path() : std::filesystem::weakly_canonical(absolute, error);
  if (error) return absolute_of(at);
  return real.has_filename() ? real : real.parent_path();
}

Path free_name_for(const Path& path) {
  for (int i = 1;; ++i) {
    Path free = path;
    free += i == 1 ? ".aside" : str(".aside-", i);
    if (kind_of_entry(free) == PathKind::nothing) return free;
  }
}

Path absolute_of(const Path& path) {
  std::error_code error;
  const Path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal();
}

}  // namespace ct
