// Libraries that are opened when a GPU is wanted, not linked: a program that is asked for help, or computes on the CPU,
// starts in milliseconds and runs where they are not installed.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ct::cuda {

/// Where to look beside the loader's own places: see search_folders().
struct LibraryPlaces {
  std::string first;  // --cuda-path: a folder of libraries, or of a toolkit (its lib64 or lib); empty: none
};

/// Folders to search, in order: `first`, its lib64 and its lib; the folders of LD_LIBRARY_PATH; lib64 and lib of
/// CUDA_HOME and of /usr/local/cuda; lib folders of Python's nvidia packages (site-packages/nvidia/*/lib: of
/// the toolkit that tools/install_cuda.sh got for this build, of VIRTUAL_ENV, of the python3 in PATH, which is not
/// started, of the user, of the system). Only folders that exist, each once. Throws ExitCode::usage if `first` is no
/// folder.
std::vector<std::string> search_folders(const LibraryPlaces& places);

/// Throws ExitCode::usage unless `first`, its lib64 or its lib has one at least of the libraries that are looked for
/// (whatever its version: that is judged when it is opened). Empty: nothing was named.
void require_libraries_in(const std::string& first);

/// A library that, once opened, stays in the process, where others find it by its file's name, wherever it lies: what
/// such a library opens by itself and would not find (cuDNN: NVRTC) can be opened here first.
class Library {
 public:
  /// `name` for people ("cuDNN"); `file` with its version ("libcudnn.so.9"). The search folders, then the loader's own
  /// places. Throws ExitCode::usage: one line that names the library, the file, the places, and what to do. The first
  /// file found is the one: if it cannot be loaded, the error names it and says why.
  Library(const std::string& name, const std::string& file, const LibraryPlaces& places)
      : Library(name, std::vector<std::string>{file}, places) {}
  /// `files`: versions that will do; the first place that has one of them counts, and there the first of them.
  Library(const std::string& name, const std::vector<std::string>& files, const LibraryPlaces& places);
  /// Throws ExitCode::usage naming the library and its file where a symbol is missing: another version.
  void* symbol(const char* name) const;
  /// The same as a pointer to a function of that type.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = this->function<Function>(name);
  }
  void* handle() const { return handle_.get(); }
  /// The file that was opened.
  const std::string& path() const { return path_; }

 private:
  std::string name_, path_;
  std::shared_ptr<void> handle_;
};

}  // namespace ct::cuda
