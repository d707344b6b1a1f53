// Launches that are repeated: run once as they are, then recorded, then replayed.
#pragma once

#include "device/backend.h"

namespace ct {

class Recorded {
 public:
  /// `body` launches the same every time. Its first run warms up what the device loads on first use.
  enum class Run { launched, recorded, replayed };
  template <class Body>
  Run run(Backend& backend, const Body& body) {
    const bool is_replay = replay_ != nullptr;
    if (runs_++ == 1) replay_ = backend.record(body);
    replay_ ? replay_->launch() : body();
    return is_replay ? Run::replayed : replay_ ? Run::recorded : Run::launched;
  }

 private:
  std::unique_ptr<Replay> replay_;
  int64_t runs_ = 0;
};

}  // namespace ct
