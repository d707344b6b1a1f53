// Deadlines of the watchdogs, in seconds. Their defaults are also those of the configuration's
// communication.heartbeat_s and communication.timeout_s.
#pragma once

namespace ct {

struct Supervision {
  double heartbeat_s = 30;  // a rank whose process is silent for so long is lost
  double timeout_s = 600;   // likewise one that runs and gets nowhere
};

}  // namespace ct
