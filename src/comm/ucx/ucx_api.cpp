#include "comm/ucx/ucx_api.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/error.h"

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
  // It speaks on standard output, and takes over the signals of crashes, unless it is told not to before it is opened.
  setenv("UCX_LOG_LEVEL", "fatal", 0);
  setenv("UCX_HANDLE_ERRORS", "none", 0);
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
  void* library = dlopen(kFile, RTLD_NOW | RTLD_NODELETE);
  if (library == nullptr)
    fail(ExitCode::usage, "UCX, which connects ranks on several hosts, cannot be opened (", dlerror(),
         "): install Debian's package libucx0 on all hosts, or start the ranks with mpirun");
  UcxApi api{};
  find(library, "ucp_get_version_string", api.version_string);
  find(library, "ucs_status_string", api.status_string);
  find(library, "ucp_config_read", api.config_read);
  find(library, "ucp_config_release", api.config_release);
  find(library, "ucp_init_version", api.init_version);
  find(library, "ucp_worker_create", api.worker_create);
  find(library, "ucp_worker_get_address", api.worker_get_address);
  find(library, "ucp_worker_release_address", api.worker_release_address);
  find(library, "ucp_worker_progress", api.worker_progress);
  find(library, "ucp_ep_create", api.ep_create);
  find(library, "ucp_ep_close_nbx", api.ep_close_nbx);
  find(library, "ucp_tag_send_nbx", api.tag_send_nbx);
  find(library, "ucp_tag_recv_nbx", api.tag_recv_nbx);
  find(library, "ucp_request_check_status", api.request_check_status);
  find(library, "ucp_request_free", api.request_free);
  return api;
}

}  // namespace ct
