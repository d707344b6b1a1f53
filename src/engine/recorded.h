// Launches that are repeated: run once as they are, then recorded, then replayed.
#pragma once

#include "device/backend.h"

namespace ct {

class Recorded {
 public:
  /// `body` launches the same every time. Its first run warms up what the device loads on first use.
  template <class Body>
  void run(Backend& backend, const Body& body) {
    if (replay_) return replay_->launch();
    if (runs_++ == 1) replay_ = backend.record(body);
    replay_ ? replay_->launch() : body();
  }

 private:
  std::unique_ptr<Replay> replay_;
  int64_t runs_ = 0;
};

}  // namespace ct
