#include "base/error.h"
#include "comm/nccl.h"
#include "comm/nccl_api.h"

namespace ct {

std::string nccl_problem(const cuda::LibraryPlaces& places) {
  try {
    open_nccl(places);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace ct
