// The options that name a data set on the disk, of `data verify` and `data info`.
#pragma once

#include <string>

#include "data/kinds.h"

namespace CLI {
class App;
}

namespace ct {

struct DataOptions {
  std::string path = "data", dataset = "auto";

  void add_to(CLI::App& app);
  /// Error(data) with what is missing, or what lies there instead.
  DataSource source() const;
};

}  // namespace ct
