#include "device/cuda/nvrtc.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace ct::cuda {
namespace {

// What is used of its interface, the same in all versions; results are numbers, 0 for success.
struct Program;
using Version = int(int*, int*);
using Create = int(Program**, const char*, const char*, int, const char* const*, const char* const*);
using Compile = int(Program*, int, const char* const*);
using LogSize = int(Program*, size_t*);
using Log = int(Program*, char*);
using Destroy = int(Program**);

std::string version_of(const Library& library) {
  int major = 0, minor = 0;
  if (const int status = library.function<Version>("nvrtcVersion")(&major, &minor); status != 0)
    fail(ExitCode::usage, "nvrtcVersion in ", library.path(), " gives error ", status);
  return str(major, ".", minor);
}

/// Where to look for what lies beside a file: in its folder, wherever that lies.
LibraryPlaces beside(const std::string& file) { return {.first = std::filesystem::path(file).parent_path()}; }

}  // namespace

Nvrtc::Nvrtc(size_t major, const LibraryPlaces& places)
    : library_("NVRTC", str("libnvrtc.so.", major), places),
      version_(version_of(library_)),
      builtins_("NVRTC's builtins", "libnvrtc-builtins.so." + version_, beside(library_.path())) {}

std::string Nvrtc::description() const { return str(version_, " in ", library_.path(), ", with ", builtins_.path()); }

void Nvrtc::try_out() const {
  Program* program = nullptr;
  int status = library_.function<Create>("nvrtcCreateProgram")(&program, "__global__ void kernel() {}", "kernel.cu", 0,
                                                               nullptr, nullptr);
  if (status == 0) status = library_.function<Compile>("nvrtcCompileProgram")(program, 0, nullptr);
  std::string log;
  size_t size = 0;
  if (program != nullptr && library_.function<LogSize>("nvrtcGetProgramLogSize")(program, &size) == 0) {
    log.resize(size);
    library_.function<Log>("nvrtcGetProgramLog")(program, log.data());
    std::ranges::replace_if(
        log, [](char c) { return c == '\n' || c == '\0'; }, ' ');
  }
  if (program != nullptr) library_.function<Destroy>("nvrtcDestroyProgram")(&program);
  if (status != 0)
    fail(ExitCode::usage, "NVRTC in ", library_.path(), " cannot compile (error ", status, "): ", log,
         ": give another's folder by --cuda-path");
}

void open_nvrtc_for(size_t major, const LibraryPlaces& places) {
  try {
    Nvrtc(major, places);
  } catch (const Error&) {
  }
}

}  // namespace ct::cuda
