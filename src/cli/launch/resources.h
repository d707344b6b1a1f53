// The hosts and slots of a launch, from its options and this machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/launch/hosts.h"
#include "cli/launch/options.h"
#include "comm/detect_launch.h"

namespace ct {

inline constexpr const char* kLocalHost = "localhost";

struct Resources {
  Hosts hosts;
  bool here = true;          // all hosts are this one, under any name
  std::string elsewhere;     // the first host of a hostfile that is not this one
  Path hostfile;             // the hostfile of the hosts; empty: none
  bool own_devices = false;  // slots are GPU numbers even if they begin at 0 without a gap
  bool from_file() const { return !hostfile.empty(); }
};

/// `count_devices` returns the number of slots of this machine; it is called only if nothing else determines them.
/// `notes` receives messages. Error(usage) for contradictory options, or if no slots remain.
Resources resources_of(const LaunchFlags& flags, const Environment& environment,
                       const std::function<int()>& count_devices, std::vector<std::string>& notes);

/// The slots in the form of kDevicesVariable, by host in the order of ranks: "0,1;0,2". Empty: on each host 0, 1, and
/// so on.
std::string devices_text(const Resources& resources);

}  // namespace ct
