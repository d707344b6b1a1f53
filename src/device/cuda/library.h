// Libraries that are opened when a GPU is used, not linked: with --help or on a CPU the program starts in milliseconds,
// and runs without them.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ct::cuda {

/// The places to search in addition to the loader's own: see search_folders().
struct LibraryPlaces {
  std::string first;  // --cuda-path: a folder of libraries, or of a toolkit (its lib64 or lib); empty: none
};

/// Folders to search, in order: `first`, its lib64 and its lib; the folders of LD_LIBRARY_PATH; lib64 and lib of
/// CUDA_HOME and of /usr/local/cuda; lib folders of Python's nvidia packages (site-packages/nvidia/*/lib: of the
/// toolkit that tools/install_cuda.sh installed for this build, of VIRTUAL_ENV, of the python3 in PATH, which is not
/// started, of the user, of the system). Only existing folders, each once. Throws ExitCode::usage if `first` is not a
/// folder.
std::vector<std::string> search_folders(const LibraryPlaces& places);

/// Throws ExitCode::usage unless `first`, its lib64 or its lib contains at least one of the searched libraries, of any
/// version (opening it checks the version). Does nothing if `first` is empty.
void require_libraries_in(const std::string& first);

/// A library that, once opened, stays in the process, where other libraries find it by its file name, independent of
/// its folder. So a library that another one opens itself and would not find (NVRTC for cuBLASLt) can be opened here
/// first.
class Library {
 public:
  /// `name` is for messages ("cuDNN"); `file` includes its version ("libcudnn.so.9"). Searches the search folders, then
  /// the loader's own places. Throws ExitCode::usage, one line with the library, the file, the places, and the remedy.
  /// The first file found is used: if it cannot be loaded, the error has its path and the reason.
  Library(const std::string& name, const std::string& file, const LibraryPlaces& places)
      : Library(name, std::vector<std::string>{file}, places) {}
  /// `files`: acceptable versions; the first place with any of them is used, and there the first of them.
  Library(const std::string& name, const std::vector<std::string>& files, const LibraryPlaces& places);
  /// Throws ExitCode::usage with the library and its file if a symbol is missing, because it is another version.
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
