// The deadlines of the watchdogs, in seconds. The defaults are also those of communication.heartbeat_s and
// communication.timeout_s in the configuration.
#pragma once

namespace ct {

struct Supervision {
  double heartbeat_s = 30;  // a rank whose process is silent for this time is lost
  double timeout_s = 600;   // a rank without progress for this time is lost
};

}  // namespace ct
