// Where rank 0 listens for the other ranks, and the word by which they know each other.
#pragma once

#include <netinet/in.h>

#include <string>
#include <vector>

#include "comm/detect_launch.h"

namespace ct {

/// A word that all ranks of a job have and others have not; `launch` makes one.
inline constexpr const char* kJobVariable = "CIFAR_TRAIN_JOB";

struct Endpoint {
  std::vector<std::string> addresses;  // of one host: names or numbers (IPv4)
  int port = 0;                        // rank 0 listens on the first of the ports that is free
  int ports = 1;                       // how many may be tried: torchrun's agent may have the one that all know
  std::string job;                     // the word; may be empty
};

/// MASTER_ADDR, MASTER_PORT and the job's word, which is TORCHELASTIC_RUN_ID or else CIFAR_TRAIN_JOB. Throws
/// ExitCode::usage naming the variable that is missing or makes no sense.
Endpoint endpoint_of(const Environment& environment);

/// "a:29500", "a:29501-29516", "10.0.0.1 or 127.0.0.1:4711"
std::string text_of(const Endpoint& endpoint);

/// Its IPv4 addresses; none where the name service has no answer yet. Throws ExitCode::usage where there is no such
/// host.
std::vector<in_addr_t> resolve(const Endpoint& endpoint);

/// IPv4 addresses under which others may reach this host; loopback last, for ranks on this host.
std::vector<std::string> own_addresses();

sockaddr_in socket_address(in_addr_t address, int port);
std::string text_of(const sockaddr_in& at);

/// 32 digits that nobody can guess.
std::string random_word();

}  // namespace ct
