#include "comm/ucx/ucx_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <cstring>

#include "base/error.h"
#include "base/files.h"

namespace ct {
namespace {

constexpr const char* kFile = "libucp.so.0";

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr)
    fail(ExitCode::usage, kFile, " has no ", name, ": install UCX 1.11 or later (Debian's package libucx0)");
}

}  // namespace

UcxApi open_ucx() {
  // Debian's 1.13 copies the host's name into 64 bytes when it is opened, and a longer one ends the process.
  utsname host{};
  if (uname(&host) == 0 && std::strlen(host.nodename) >= 64)
    fail(ExitCode::usage,
         "UCX, which connects ranks on several hosts, cannot be opened where the host's name has 64 "
         "characters: give host ",
         in_quotes(host.nodename), " a shorter one");
  // It speaks on standard output, and takes over the signals of crashes, unless it is told not to before it is opened.
  setenv("UCX_LOG_LEVEL", "fatal", 0);
  setenv("UCX_HANDLE_ERRORS", "none", 0);
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
  void* library = dlopen(kFile, RTLD_NOW | RTLD_NODELETE);
  if (library == nullptr)
    fail(ExitCode::usage, "UCX, which connects ranks on several hosts, cannot be opened (", dlerror(),
         "): install Debian's package libucx0 on all hosts, or start the ranks with mpirun");
  UcxApi api{};
#define CT_FIND(name, function) find(library, #function, api.name);
  CT_UCX_FUNCTIONS(CT_FIND)
#undef CT_FIND
  return api;
}

}  // namespace ct
