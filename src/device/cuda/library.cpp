#include "device/cuda/library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace ct::cuda {
namespace {

namespace fs = std::filesystem;

/// Folders that cannot be read count as missing: other users' homes must not stop the search.
bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// What lies in a folder and is called `start`..., sorted.
std::vector<fs::path> children(const fs::path& folder, const std::string& start = {}) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().native().starts_with(start)) found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Folders in the order in which they were added, under whatever name they came first.
class Folders {
 public:
  void add(const fs::path& folder) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error || !is_folder(real) || std::ranges::find(real_, real) != real_.end()) return;
    real_.push_back(real);
    names_.push_back(folder.native());
  }
  void add_toolkit(const fs::path& root) {
    add(root / "lib64");
    add(root / "lib");
  }
  /// Python's packages, one of which may be "nvidia".
  void add_packages(const fs::path& packages) {
    for (const fs::path& package : children(packages / "nvidia")) add(package / "lib");
  }
  void add_python(const fs::path& prefix) {
    for (const fs::path& python : children(prefix / "lib", "python3"))
      for (const char* packages : {"site-packages", "dist-packages"}) add_packages(python / packages);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<fs::path> real_;
  std::vector<std::string> names_;
};

/// The python3 that a shell would start, empty: none. Only of absolute folders: what lies in the working folder by
/// chance is not asked.
fs::path python_of_path() {
  const std::string path = environment("PATH");
  for (size_t begin = 0, end; begin < path.size(); begin = end + 1) {
    end = std::min(path.find(':', begin), path.size());
    const fs::path python = fs::path(path.substr(begin, end - begin)) / "python3";
    std::error_code ignored;
    if (python.is_absolute() && fs::is_regular_file(python, ignored) && access(python.c_str(), X_OK) == 0)
      return python;
  }
  return {};
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : between) + part;
  return all;
}

/// RTLD_NODELETE: CUDA's libraries keep threads and exit handlers, so they must not be unmapped before the process
/// ends. RTLD_LOCAL: their symbols are nobody else's.
void* open(const std::string& file) { return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

struct Opened {
  void* handle;
  std::string path;
};

// By its full path a library finds what lies beside it, or in folders beside its own (pip's layout), by the run path
// that it was built with.
Opened open_first(const std::string& name, const std::vector<std::string>& files,
                  const std::vector<std::string>& folders) {
  const auto refuse = [&](const std::string& file, std::string reason) {
    // The reason begins with the file at fault, which may be another that this one needs.
    if (reason.starts_with(file + ": ")) reason.erase(0, file.size() + 2);
    // What the loader says of a file that is there.
    if (reason == "cannot open shared object file: No such file or directory") reason = "made for another processor";
    fail(ExitCode::usage, name, " cannot be loaded from ", file, " (", reason,
         "): give another's folder by --cuda-path", " or set LD_LIBRARY_PATH");
  };
  for (const std::string& folder : folders)
    for (const std::string& file : files) {
      const fs::path path = fs::path(folder) / file;
      std::error_code ignored;
      if (!fs::is_regular_file(path, ignored)) continue;
      if (void* handle = open(path)) return {handle, path};
      refuse(path, dlerror());
    }
  for (const std::string& file : files) {
    if (void* handle = open(file)) {
      link_map* map = nullptr;
      const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0';
      return {handle, known ? map->l_name : file};
    }
    const std::string reason = dlerror();
    if (!reason.starts_with(file + ": cannot open")) refuse(file, reason);
  }
  fail(ExitCode::usage, name, " (", joined(files, " or "), ") was not found in ", joined(folders, ", "),
       folders.empty() ? "" : " or ",
       "the loader's default folders; give its folder by --cuda-path or set LD_LIBRARY_PATH");
}

void require_folder(const std::string& first) {
  if (!is_folder(first))
    fail(ExitCode::usage, "--cuda-path ", first,
         " (cuda.path) is not a folder: give one with CUDA's libraries, or a toolkit");
}

}  // namespace

void require_libraries_in(const std::string& first) {
  if (first.empty()) return;
  require_folder(first);
  for (const fs::path& folder : {fs::path(first), fs::path(first) / "lib64", fs::path(first) / "lib"})
    for (const char* library : {"libcudnn.so", "libcublasLt.so", "libnccl.so", "libnvrtc.so"})
      if (!children(folder, library).empty()) return;
  fail(ExitCode::usage, "--cuda-path ", first,
       " (cuda.path) has no libcudnn, libcublasLt, libnccl or libnvrtc, nor have its lib64 and lib: give the folder "
       "that has one");
}

std::vector<std::string> search_folders(const LibraryPlaces& places) {
  Folders folders;
  if (!places.first.empty()) {
    require_folder(places.first);
    folders.add(places.first);
    folders.add_toolkit(places.first);
  }
  // An empty part is the working folder to the loader: not a place to take code from unasked.
  const std::string path = environment("LD_LIBRARY_PATH");
  for (size_t begin = 0, end; begin < path.size(); begin = end + 1) {
    end = std::min(path.find_first_of(":;", begin), path.size());
    if (end > begin) folders.add(path.substr(begin, end - begin));
  }
  if (const std::string home = environment("CUDA_HOME"); !home.empty()) folders.add_toolkit(home);
  folders.add_toolkit("/usr/local/cuda");
  if (const std::string own = CT_CUDA_OF_BUILD; !own.empty()) folders.add_python(own);
  if (const std::string python = environment("VIRTUAL_ENV"); !python.empty()) folders.add_python(python);
  if (const fs::path python = python_of_path(); !python.empty()) {
    folders.add_python(python.parent_path().parent_path());
    // A virtual environment's is a link to the one it was made from, whose packages it may share.
    std::error_code error;
    if (const fs::path real = fs::canonical(python, error); !error)
      folders.add_python(real.parent_path().parent_path());
  }
  if (const std::string home = environment("HOME"); !home.empty()) folders.add_python(fs::path(home) / ".local");
  folders.add_python("/usr/local");
  folders.add_packages("/usr/lib/python3/dist-packages");
  return folders.names();
}

Library::Library(const std::string& name, const std::vector<std::string>& files, const LibraryPlaces& places)
    : name_(name) {
  Opened opened = open_first(name, files, search_folders(places));
  path_ = std::move(opened.path);
  handle_ = std::shared_ptr<void>(opened.handle, dlclose);
}

void* Library::symbol(const char* name) const {
  void* found = dlsym(handle(), name);
  if (!found)
    fail(ExitCode::usage, name_, " in ", path_, " lacks ", name,
         ", so it is not a version that this program needs: ", "give another's folder by --cuda-path");
  return found;
}

}  // namespace ct::cuda
