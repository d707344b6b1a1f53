#include "comm/nccl/nccl_api.h"

#include "device/cuda/library_names.h"

namespace ct {
namespace {

template <class Function>
void find(const cuda::Library& library, const char* name, Function*& function) {
  function = library.function<Function>(name);
}

}  // namespace

NcclApi open_nccl(const cuda::LibraryPlaces& places) {
  const cuda::Library library("NCCL", cuda::kNcclFile, places);
  NcclApi api;
  api.path = library.path();
  find(library, "ncclGetVersion", api.get_version);
  find(library, "ncclGetErrorString", api.get_error_string);
  find(library, "ncclGetLastError", api.get_last_error);
  find(library, "ncclGetUniqueId", api.get_unique_id);
  find(library, "ncclCommInitRankConfig", api.comm_init_rank_config);
  find(library, "ncclCommGetAsyncError", api.comm_get_async_error);
  find(library, "ncclCommFinalize", api.comm_finalize);
  find(library, "ncclCommDestroy", api.comm_destroy);
  find(library, "ncclCommAbort", api.comm_abort);
  find(library, "ncclGroupStart", api.group_start);
  find(library, "ncclGroupEnd", api.group_end);
  find(library, "ncclSend", api.send);
  find(library, "ncclRecv", api.recv);
  find(library, "ncclAllReduce", api.all_reduce);
  find(library, "ncclReduceScatter", api.reduce_scatter);
  find(library, "ncclAllGather", api.all_gather);
  return api;
}

}  // namespace ct
