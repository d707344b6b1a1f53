// Where ranks meet that no MPI brings together: MASTER_ADDR and MASTER_PORT.
#pragma once

#include <string>

#include "comm/detect_launch.h"

namespace ct {

/// A word that all ranks of a job have and others have not; `launch` makes one.
inline constexpr const char* kJobVariable = "CIFAR_TRAIN_JOB";

struct MeetingPlace {
  std::string address;  // a name or a number (IPv4)
  int port = 0;         // rank 0 listens on the first of the ports that is free
  int ports = 1;        // how many may be tried: torchrun's agent may have the one that all know
  std::string job;      // what ranks of this job know: TORCHELASTIC_RUN_ID, else CIFAR_TRAIN_JOB; may be empty
};

/// From the environment. Throws ExitCode::usage naming the variable that is missing or makes no sense.
MeetingPlace meeting_place(const Environment& environment);

/// "a:29500", "a:29501-29516"
std::string text_of(const MeetingPlace& place);

}  // namespace ct
