// The address at which rank 0 listens, and the word that identifies the ranks of a job.
#pragma once

#include <netinet/in.h>

#include <string>
#include <vector>

#include "comm/detect_launch.h"

namespace ct {

/// The variable of a word that is unique to a job; `launch` generates one.
inline constexpr const char* kJobVariable = "CIFAR_TRAIN_JOB";

struct Endpoint {
  std::vector<std::string> addresses;  // of one host: names or IPv4 addresses
  int port = 0;                        // rank 0 listens on the first of the ports that is free
  int ports = 1;                       // number of ports to try: torchrun's agent may use the first
  std::string job;                     // the word; may be empty
};

/// MASTER_ADDR, MASTER_PORT and the job's word, TORCHELASTIC_RUN_ID or otherwise CIFAR_TRAIN_JOB. Throws
/// ExitCode::usage with the missing or invalid variable.
Endpoint endpoint_of(const Environment& environment);

/// "a:29500", "a:29501-29516", "10.0.0.1 or 127.0.0.1:4711"
std::string text_of(const Endpoint& endpoint);

/// The endpoint's IPv4 addresses; empty if the name service does not answer yet. Throws ExitCode::usage if the host
/// does not exist.
std::vector<in_addr_t> resolve(const Endpoint& endpoint);

/// IPv4 addresses at which others can reach this host; loopback is last, for ranks on this host.
std::vector<std::string> own_addresses();

sockaddr_in socket_address(in_addr_t address, int port);
std::string text_of(const sockaddr_in& at);

/// 32 random hexadecimal digits from the system's secure generator.
std::string random_word();

}  // namespace ct
