// UCX's functions for messages, from the library that is found at run time.
#pragma once

#include <ucp/api/ucp.h>

namespace ct {

/// The functions, by their names here and in the library.
#define CT_UCX_FUNCTIONS(X)                             \
  X(version_string, ucp_get_version_string)             \
  X(status_string, ucs_status_string)                   \
  X(config_read, ucp_config_read)                       \
  X(config_release, ucp_config_release)                 \
  X(init_version, ucp_init_version)                     \
  X(worker_create, ucp_worker_create)                   \
  X(worker_get_address, ucp_worker_get_address)         \
  X(worker_release_address, ucp_worker_release_address) \
  X(worker_progress, ucp_worker_progress)               \
  X(ep_create, ucp_ep_create)                           \
  X(ep_close_nbx, ucp_ep_close_nbx)                     \
  X(tag_send_nbx, ucp_tag_send_nbx)                     \
  X(tag_recv_nbx, ucp_tag_recv_nbx)                     \
  X(request_check_status, ucp_request_check_status)     \
  X(request_free, ucp_request_free)

struct UcxApi {
#define CT_MEMBER(name, function) decltype(&function) name;
  CT_UCX_FUNCTIONS(CT_MEMBER)
#undef CT_MEMBER
};

/// Opens the library, which then stays open. Throws ExitCode::usage if it is missing or lacks a function.
UcxApi open_ucx();

}  // namespace ct
