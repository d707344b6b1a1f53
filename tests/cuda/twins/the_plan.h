// What the twins of libraries have in common.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <string>

namespace ct::cuda {

constexpr size_t kWorkspaceBytes = 512;

/// The one way there is: "plain loops", or as ON_HOST_PLAN says, for a library of which a later version lacks it.
inline std::string the_plan() {
  const char* name = std::getenv("ON_HOST_PLAN");
  return name != nullptr ? name : "plain loops";
}

}  // namespace ct::cuda
