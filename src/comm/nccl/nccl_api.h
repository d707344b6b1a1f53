// NCCL's functions for collectives, from the library that is found at run time.
#pragma once

#include <nccl.h>

#include <string>

#include "device/cuda/library.h"

namespace ct {

/// The functions, by their names here and in the library.
#define CT_NCCL_FUNCTIONS(X)                       \
  X(get_version, ncclGetVersion)                   \
  X(get_error_string, ncclGetErrorString)          \
  X(get_last_error, ncclGetLastError)              \
  X(get_unique_id, ncclGetUniqueId)                \
  X(comm_init_rank_config, ncclCommInitRankConfig) \
  X(comm_get_async_error, ncclCommGetAsyncError)   \
  X(comm_finalize, ncclCommFinalize)               \
  X(comm_destroy, ncclCommDestroy)                 \
  X(comm_abort, ncclCommAbort)                     \
  X(group_start, ncclGroupStart)                   \
  X(group_end, ncclGroupEnd)                       \
  X(send, ncclSend)                                \
  X(recv, ncclRecv)                                \
  X(all_reduce, ncclAllReduce)                     \
  X(reduce_scatter, ncclReduceScatter)             \
  X(all_gather, ncclAllGather)

struct NcclApi {
  std::string path;  // the library's file
#define CT_MEMBER(name, function) decltype(&function) name;
  CT_NCCL_FUNCTIONS(CT_MEMBER)
#undef CT_MEMBER
};

/// Throws ExitCode::usage with the library and the searched places, or with the missing function.
NcclApi open_nccl(const cuda::LibraryPlaces& places);

/// The version in NCCL's encoding (22809 is 2.28.9). Throws ExitCode::usage if it is older than 2.18. Defined in
/// nccl_link.cpp.
int usable_version(const NcclApi& api);

}  // namespace ct
