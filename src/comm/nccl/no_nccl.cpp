#include "base/error.h"
#include "comm/nccl/nccl.h"

namespace ct {

std::string nccl_problem(const cuda::LibraryPlaces&) { return "this program was built without CUDA"; }

std::unique_ptr<Communicator> make_nccl(Backend&, Communicator&, const NcclOptions&) {
  fail(ExitCode::usage, "NCCL: this program was built without CUDA; tools/quickstart.sh --gpu builds it with CUDA");
}

}  // namespace ct
