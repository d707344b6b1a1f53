// The exchange that ranks need to set up a communicator. MPI, TCP and every communicator implement it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ct {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The bytes of every rank, by rank; lengths may differ. Collective.
  virtual std::vector<std::string> gather(std::string_view mine) = 0;
};

}  // namespace ct
