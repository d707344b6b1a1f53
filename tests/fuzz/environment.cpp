#include "cli/launch/rank_place.h"
#include "comm/detect_launch.h"
#include "comm/rendezvous/endpoint.h"
#include "deepspeed/launch_env.h"
#include "target.h"

namespace ct::fuzz::environment {
namespace {

/// Lines VAR=VALUE are the environment of a rank in a job.
void read(Input input) {
  Variables variables;
  read_variables(text_of(input), "environment", variables);
  const Environment environment = [&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  };
  const Launch launch = detect_launch(environment);
  if (launch.rank < 0 || launch.rank >= launch.size) fail(ExitCode::bug, "rank ", launch.rank, " of ", launch.size);
  if (launch.local_rank < 0 || launch.local_size < 0) fail(ExitCode::bug, "local rank ", launch.local_rank);
  if (const char* devices = environment(kDevicesVariable)) devices_of_rank(devices, launch.rank);
  if (launch.meet == Launch::Meet::at_address) text_of(endpoint_of(environment));
}

const Registered registered({.name = "environment", .refusals = {ExitCode::usage}, .read = read});

}  // namespace
}  // namespace ct::fuzz::environment
