#include "device/cuda/library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace ct::cuda {
namespace {

namespace fs = std::filesystem;

/// An environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* was = std::getenv(name)) was_ = was;
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  Variable(const Variable&) = delete;
  ~Variable() {
    if (was_)
      setenv(name_, was_->c_str(), /*overwrite=*/1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> was_;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// A small shared object, of every system with glibc: it needs libc.so.6 and is called `so_name`, 10 letters long.
std::string example(const std::string& so_name = "ct_example") {
  Dl_info info;
  if (!dladdr(dlsym(RTLD_NEXT, "qsort"), &info)) throw std::runtime_error("where is the C library?");
  std::ifstream file(fs::canonical(info.dli_fname).parent_path() / "libdl.so.2", std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (bytes.str().empty()) throw std::runtime_error("no libdl.so.2 beside the C library");
  return replaced(bytes.str(), "libdl.so.2", so_name);
}

class CudaLibrary : public ::testing::Test {
 protected:
  std::string write(const std::string& path, const std::string& bytes) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path, std::ios::binary) << bytes;
    return folder_ / path;
  }
  std::string make(const std::string& path) {
    fs::create_directories(folder_ / path);
    return folder_ / path;
  }
  /// The folders of this test among those that are searched, without the common part.
  std::vector<std::string> searched(const LibraryPlaces& places = {}) {
    std::vector<std::string> ours;
    const std::string common = folder_.path().native() + "/";
    for (const std::string& folder : search_folders(places))
      if (folder.starts_with(common)) ours.push_back(folder.substr(common.size()));
    return ours;
  }
  std::string error(const std::string& file, const LibraryPlaces& places = {}) {
    try {
      Library("Example", file, places);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
      return e.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
  Variable path_{"LD_LIBRARY_PATH", ""}, cuda_home_{"CUDA_HOME", ""}, venv_{"VIRTUAL_ENV", ""}, home_{"HOME", ""},
      programs_{"PATH", ""};
};

TEST_F(CudaLibrary, FoldersAreSearchedInTheOrderOfTheHeader) {
  const std::string packages = "lib/python3.11/site-packages/nvidia/";
  for (const char* folder : {"first/lib64", "first/lib", "a", "b", "home/lib64", "home/lib"}) make(folder);
  for (const char* folder : {"cudnn/lib", "cu13/lib", "no_lib_here"}) make("venv/" + packages + folder);
  make("me/.local/" + packages + "nccl/lib");
  write("file", "");
  const Variable path("LD_LIBRARY_PATH", str(":", folder_.path().native(), "/b::", folder_.path().native(), "/missing:",
                                             folder_.path().native(), "/file:", folder_.path().native(), "/a:"));
  const Variable cuda_home("CUDA_HOME", folder_ / "home"), venv("VIRTUAL_ENV", folder_ / "venv"),
      home("HOME", folder_ / "me");
  EXPECT_EQ(searched({.first = folder_ / "first"}),
            (std::vector<std::string>{"first", "first/lib64", "first/lib", "b", "a", "home/lib64", "home/lib",
                                      "venv/" + packages + "cu13/lib", "venv/" + packages + "cudnn/lib",
                                      "me/.local/" + packages + "nccl/lib"}));
}

TEST_F(CudaLibrary, PackagesOfThePythonInPathAreFoundFromItsLinkAndFromItsFile) {
  const std::string packages = "/lib/python3.11/site-packages/nvidia/nccl/lib";
  for (const char* prefix : {"text", "folder", "env", "base", "later", "me/.local"}) make(prefix + packages);
  write("text/bin/python3", "not a program");
  make("folder/bin/python3");
  make("empty/bin");
  for (const char* python : {"base/bin/python3.11", "later/bin/python3"})
    fs::permissions(write(python, ""), fs::perms::owner_all, fs::perm_options::replace);
  make("env/bin");
  fs::create_symlink("../../base/bin/python3.11", folder_ / "env/bin/python3");
  std::string path = ":bin";
  for (const char* prefix : {"missing", "empty", "text", "folder", "env", "later"})
    path += str(":", folder_.path().native(), "/", prefix, "/bin");
  const Variable programs("PATH", path), home("HOME", folder_ / "me");
  EXPECT_EQ(searched(), (std::vector<std::string>{"env" + packages, "base" + packages, "me/.local" + packages}));
  const Variable venv("VIRTUAL_ENV", folder_ / "base");
  EXPECT_EQ(searched(), (std::vector<std::string>{"base" + packages, "env" + packages, "me/.local" + packages}));
}

TEST_F(CudaLibrary, APythonInTheWorkingFolderIsNotAsked) {
  const std::string packages = "lib/python3.11/site-packages/nvidia/nccl/lib";
  make(packages);
  make("bin");
  fs::permissions(write("bin/python3", ""), fs::perms::owner_all, fs::perm_options::replace);
  const std::string before = fs::current_path();
  fs::current_path(folder_ / "bin");
  for (const char* path : {"", ":", ".", "../bin"}) {
    const Variable programs("PATH", path);
    EXPECT_EQ(searched(), std::vector<std::string>{}) << path;
  }
  const Variable programs("PATH", str(".:", folder_.path().native(), "/bin/"));
  EXPECT_EQ(searched(), std::vector<std::string>{packages});
  fs::current_path(before);
}

TEST_F(CudaLibrary, TheWorkingFolderIsNoPlace) {
  const std::string before = fs::current_path();
  fs::current_path(folder_.path());
  const Variable path("LD_LIBRARY_PATH", "::;:");
  const std::vector<std::string> folders = search_folders({});
  fs::current_path(before);
  for (const std::string& folder : folders) EXPECT_TRUE(folder.starts_with("/")) << folder;
}

TEST_F(CudaLibrary, AFolderWithTwoNamesIsSearchedOnce) {
  make("toolkit/lib");
  fs::create_directory_symlink("lib", folder_ / "toolkit/lib64");
  const Variable path("LD_LIBRARY_PATH", folder_ / "toolkit/lib"), cuda_home("CUDA_HOME", folder_ / "toolkit");
  EXPECT_EQ(searched({.first = folder_ / "toolkit"}), (std::vector<std::string>{"toolkit", "toolkit/lib64"}));
}

TEST_F(CudaLibrary, TheFirstFolderThatHasItCounts) {
  const std::string name = "libct_example_first.so.1";
  const std::string in_lib64 = write("toolkit/lib64/" + name, example()), in_path = write("path/" + name, example());
  const Variable path("LD_LIBRARY_PATH", folder_ / "path");
  EXPECT_EQ(Library("Example", name, {.first = folder_ / "toolkit"}).path(), in_lib64);
  EXPECT_EQ(Library("Example", name, {}).path(), in_path);
  fs::remove(in_lib64);
  fs::create_symlink("nowhere", in_lib64);
  EXPECT_EQ(Library("Example", name, {.first = folder_ / "toolkit"}).path(), in_path);
}

TEST_F(CudaLibrary, AnyOfSeveralVersionsWillDoButThePlaceGoesFirst) {
  const std::string old_one = write("a/libct_example_two.so.1", example());
  const std::string new_one = write("b/libct_example_two.so.2", example());
  const std::vector<std::string> files{"libct_example_two.so.2", "libct_example_two.so.1"};
  const Variable path("LD_LIBRARY_PATH", folder_ / "b");
  EXPECT_EQ(Library("Example", files, {}).path(), new_one);
  EXPECT_EQ(Library("Example", files, {.first = folder_ / "a"}).path(), old_one);
  const std::string both = write("a/libct_example_two.so.2", example());
  EXPECT_EQ(Library("Example", files, {.first = folder_ / "a"}).path(), both);
}

TEST_F(CudaLibrary, TheLoadersOwnPlacesAreTheLast) {
  const Library library("Example", "libutil.so.1", {});
  EXPECT_TRUE(library.path().starts_with("/")) << library.path();
  EXPECT_TRUE(library.path().ends_with("/libutil.so.1")) << library.path();
  const std::string here = write("here/libutil.so.1", example());
  EXPECT_EQ(Library("Example", "libutil.so.1", {.first = folder_ / "here"}).path(), here);
}

// What lets cuDNN find a library of another folder that was opened before it.
TEST_F(CudaLibrary, WhatIsOpenIsFoundByItsNameAndStays) {
  const std::string path = write("a/libct_example_stays.so", example("ct_stay.so"));
  EXPECT_EQ(dlopen("ct_stay.so", RTLD_NOW), nullptr);
  { const Library library("Example", "libct_example_stays.so", {.first = folder_ / "a"}); }
  EXPECT_EQ(Library("Example", "ct_stay.so", {}).path(), path);
}

TEST_F(CudaLibrary, SymbolsAreFoundOrNamed) {
  write("a/libct_example_symbols.so.1", example());
  const Library library("Example", "libct_example_symbols.so.1", {.first = folder_ / "a"});
  EXPECT_NE(library.symbol("qsort"), nullptr);
  try {
    library.symbol("ct_missing");
    FAIL() << "found";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_EQ(std::string(e.what()), str("Example in ", library.path(),
                                         " lacks ct_missing, so it is not a version that this program needs: "
                                         "give another's folder by --cuda-path"));
  }
}

TEST_F(CudaLibrary, WhatIsMissingIsNamedWithThePlaces) {
  make("a/lib");
  make("b");
  const Variable path("LD_LIBRARY_PATH", folder_ / "b");
  const std::string message = error("libct_nowhere.so.9", {.first = folder_ / "a"});
  const std::string common = folder_.path();
  EXPECT_TRUE(message.starts_with(
      str("Example (libct_nowhere.so.9) was not found in ", common, "/a, ", common, "/a/lib, ", common, "/b")))
      << message;
  EXPECT_TRUE(
      message.ends_with(" or the loader's default folders; give its folder by --cuda-path or set LD_LIBRARY_PATH"))
      << message;
}

TEST_F(CudaLibrary, AFolderThatWasNamedMustExist) {
  for (const std::string& first : {write("file", ""), (folder_ / "missing").native()})
    EXPECT_EQ(error("libct_nowhere.so.9", {.first = first}),
              str("--cuda-path ", first, " (cuda.path) is not a folder: give one with CUDA's libraries, or a toolkit"));
}

TEST_F(CudaLibrary, AFileThatCannotBeLoadedIsNamedWithTheReason) {
  std::string other_class = example();
  other_class[4] ^= 3;  // ELFCLASS32 for ELFCLASS64
  std::string other_machine = example();
  other_machine[18] ^= 1;
  const std::map<std::string, std::string> cases = {{"", "(file too short)"},
                                                    {std::string(5000, '?'), "(invalid ELF header)"},
                                                    {other_class, "wrong ELF class"},
                                                    {other_machine, "(made for another processor)"},
                                                    {replaced(example(), "libc.so.6", "libx.so.6"), "(libx.so.6: "}};
  write("good/libct_example_bad.so.1", example());
  const Variable path("LD_LIBRARY_PATH", folder_ / "good");
  for (const auto& [bytes, reason] : cases) {
    const std::string file = write("a/libct_example_bad.so.1", bytes);
    const std::string message = error("libct_example_bad.so.1", {.first = folder_ / "a"});
    EXPECT_TRUE(message.starts_with(str("Example cannot be loaded from ", file, " ("))) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    EXPECT_TRUE(message.ends_with("): give another's folder by --cuda-path or set LD_LIBRARY_PATH")) << message;
  }
}

TEST_F(CudaLibrary, AFolderThatCannotBeReadIsPassedOver) {
  const std::string name = "libct_example_closed.so.1", found = write("open/" + name, example());
  write("closed/" + name, example());
  make("me/.local/lib");
  const Variable path("LD_LIBRARY_PATH", str((folder_ / "closed").native(), ":", (folder_ / "open").native())),
      home("HOME", folder_ / "me");
  for (const char* folder : {"closed", "me/.local/lib"})
    fs::permissions(folder_ / folder, fs::perms::none, fs::perm_options::replace);
  const std::string used = Library("Example", name, {}).path();
  for (const char* folder : {"closed", "me/.local/lib"})
    fs::permissions(folder_ / folder, fs::perms::owner_all, fs::perm_options::replace);
  if (geteuid() == 0)
    EXPECT_EQ(used, folder_ / "closed" / name);  // nothing is closed to root
  else
    EXPECT_EQ(used, found);
}

}  // namespace
}  // namespace ct::cuda
