// The hosts and slots of a launch: hostfiles and the filters --include and --exclude, with DeepSpeed's messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ct {

/// A host and its used slots, ascending: one rank for each, on the GPU of that number.
struct HostSlots {
  std::string name;
  std::vector<int> slots;
  bool operator==(const HostSlots&) const = default;
};
using Hosts = std::vector<HostSlots>;  // in the order of the ranks; every host once, none without slots

int64_t slots_of(const Hosts& hosts);
/// Slots 0 to count - 1.
std::vector<int> first_slots(int count);

/// Parses a hostfile of lines "NAME slots=N": blank lines and lines that begin with # are skipped, and text after N is
/// ignored. Error(usage) with `origin` and the line.
Hosts parse_hostfile(std::string_view text, const std::string& origin, std::vector<std::string>* notes = nullptr);
Hosts read_hostfile(const Path& path, std::vector<std::string>& notes);

/// The allowed slots: those of the hosts, or any, if they are numbers in CUDA_VISIBLE_DEVICES.
enum class KnownSlots : uint8_t { of_hosts, any };

/// The slots of `hosts` that `include` names, or that `exclude` does not name: "NAME[:SLOT[,SLOT...]][@NAME...]"; at
/// most one of the two is not empty. The result may be empty.
Hosts filter_hosts(const Hosts& hosts, const std::string& include, const std::string& exclude,
                   KnownSlots known = KnownSlots::of_hosts);

}  // namespace ct
