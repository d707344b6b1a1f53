// What ranks need of each other to set up faster ways to exchange data. MPI, TCP and every communicator implement it.
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
  /// Every rank's bytes, by rank; each may have another number of them. Collective.
  virtual std::vector<std::string> gather(std::string_view mine) = 0;
};

}  // namespace ct
