// The functions of NCCL that collectives need, from the library that is found at run time.
#pragma once

#include <nccl.h>

#include <string>

#include "device/cuda/library.h"

namespace ct {

struct NcclApi {
  std::string path;  // the library's file
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
};

/// Throws ExitCode::usage naming the library and the places where it was looked for, or the function that it lacks.
NcclApi open_nccl(const cuda::LibraryPlaces& places);

/// The version as NCCL gives it (22809 is 2.28.9). Throws ExitCode::usage if that is older than 2.18. In nccl_link.cpp.
int usable_version(const NcclApi& api);

}  // namespace ct
