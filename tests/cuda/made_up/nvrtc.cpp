// As much of an NVRTC as `doctor` asks for. It compiles nothing, but like NVIDIA's it needs its builtins for that,
// which it opens by their name.
#include <dlfcn.h>

#include <cstddef>
#include <cstring>

namespace {
constexpr char kLog[] = "nvrtc: error: failed to open libnvrtc-builtins.so.13.77.\n";
constexpr int kBuiltinOperationFailure = 7;
}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 77;  // of which no NVIDIA's are anywhere
  return 0;
}
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*, const char* const*) {
  *program = program;
  return 0;
}
int nvrtcCompileProgram(void*, int, const char* const*) {
  return dlopen("libnvrtc-builtins.so.13.77", RTLD_NOW) != nullptr ? 0 : kBuiltinOperationFailure;
}
int nvrtcGetProgramLogSize(void*, size_t* size) {
  *size = sizeof kLog;
  return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
  std::memcpy(log, kLog, sizeof kLog);
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  *program = nullptr;
  return 0;
}
}
