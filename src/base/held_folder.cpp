#include "base/held_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/paths.h"

namespace ct {
namespace {

constexpr std::string_view kDescriptors = "/proc/self/fd/", kDeleted = " (deleted)";

/// The name of an open folder, as the system tells it.
std::string name_of_descriptor(const Path& descriptor) {
  std::error_code error;
  const Path target = std::filesystem::read_symlink(descriptor, error);
  return error ? descriptor.native() : target.native();
}

}  // namespace

HeldFolder::HeldFolder(const Path& path)
    : opened_as_(absolute_of(path)), folder_(files_, path, O_RDONLY | O_DIRECTORY) {
  const Path by_descriptor = std::string(kDescriptors) + std::to_string(folder_.fd());
  path_ = same_place(by_descriptor, path) ? by_descriptor : path;
}

HeldFolder::Fate HeldFolder::fate() const {
  struct stat held {};
  if (fstat(folder_.fd(), &held) != 0 || held.st_nlink == 0) return Fate::removed;
  try {
    return same_place(path_, opened_as_) ? Fate::in_place : Fate::renamed;
  } catch (const Error&) {  // the name cannot be looked at just now, which says nothing of the folder
    return Fate::in_place;
  }
}

Path HeldFolder::name() const { return name_of_held(path_.native()); }

std::string name_of_held(std::string_view path) {
  if (!path.starts_with(kDescriptors)) return std::string(path);
  const size_t end = std::min(path.find('/', kDescriptors.size()), path.size());
  std::string name = name_of_descriptor(path.substr(0, end));
  if (name.ends_with(kDeleted)) name.resize(name.size() - kDeleted.size());
  return name + std::string(path.substr(end));
}

}  // namespace ct
