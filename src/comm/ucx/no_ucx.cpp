#include "base/error.h"
#include "comm/ucx/ucx.h"

namespace ct {

std::unique_ptr<MessageWire> make_ucx_wire(Bootstrap& ranks) {
  fail(
      ExitCode::usage, "the ", ranks.size(),
      " ranks are on several hosts, which UCX would connect, but this program was built without it: install libucx-dev "
      "and build again, or start them with mpirun");
}

std::string ucx_library() { return "none (built without UCX)"; }

}  // namespace ct
