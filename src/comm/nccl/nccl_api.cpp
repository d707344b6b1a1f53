#include "comm/nccl/nccl_api.h"

#include "device/cuda/library_names.h"

namespace ct {
NcclApi open_nccl(const cuda::LibraryPlaces& places) {
  const cuda::Library library("NCCL", cuda::kNcclFile, places);
  NcclApi api;
  api.path = library.path();
#define CT_FIND(name, function) library.find(#function, api.name);
  CT_NCCL_FUNCTIONS(CT_FIND)
#undef CT_FIND
  return api;
}

}  // namespace ct
