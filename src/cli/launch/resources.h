// The hosts and slots that a launch takes, by its options and what is here.
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
  bool here = true;          // all hosts are this one, by whatever name
  std::string elsewhere;     // the first host of a hostfile that is not this one
  Path hostfile;             // that names the hosts; empty: none
  bool own_devices = false;  // slots are numbers of GPUs even where they begin at 0 and have no gap
  bool from_file() const { return !hostfile.empty(); }
};

/// `count_devices` tells how many slots this machine has: it is asked only where nothing else says so. `notes` receives
/// lines for people. Error(usage) where options contradict each other or nothing is left.
Resources resources_of(const LaunchFlags& flags, const Environment& environment,
                       const std::function<int()>& count_devices, std::vector<std::string>& notes);

/// The slots as ranks are told of them, by host in the order of ranks: "0,1;0,2". Empty: on each host 0, 1, and so on.
std::string devices_text(const Resources& resources);

}  // namespace ct
