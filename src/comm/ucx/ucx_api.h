// The functions of UCX that messages need, from the library that is found at run time.
#pragma once

#include <ucp/api/ucp.h>

namespace ct {

struct UcxApi {
  decltype(&ucp_get_version_string) version_string;
  decltype(&ucs_status_string) status_string;
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_init_version) init_version;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_get_address) worker_get_address;
  decltype(&ucp_worker_release_address) worker_release_address;
  decltype(&ucp_worker_progress) worker_progress;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_close_nbx) ep_close_nbx;
  decltype(&ucp_tag_send_nbx) tag_send_nbx;
  decltype(&ucp_tag_recv_nbx) tag_recv_nbx;
  decltype(&ucp_request_check_status) request_check_status;
  decltype(&ucp_request_free) request_free;
};

/// Once opened, the library stays. Throws ExitCode::usage naming it where it is not there, or lacks a function.
UcxApi open_ucx();

}  // namespace ct
