// Which hosts, and which slots of each, a launch takes: hostfiles and the filters --include and --exclude, in
// DeepSpeed's words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ct {

/// A host and the numbers of its slots that are taken, in rising order: one rank each, on the GPU of that number.
struct HostSlots {
  std::string name;
  std::vector<int> slots;
  bool operator==(const HostSlots&) const = default;
};
using Hosts = std::vector<HostSlots>;  // in the order of the ranks; every host once, none without slots

int64_t slots_of(const Hosts& hosts);
/// Slots 0 to count - 1.
std::vector<int> first_slots(int count);

/// The lines of a hostfile, "NAME slots=N": blank ones and those that begin with # are skipped, what follows N is
/// ignored. Error(usage) names `origin` and the line.
Hosts parse_hostfile(std::string_view text, const std::string& origin, std::vector<std::string>* notes = nullptr);
Hosts read_hostfile(const Path& path, std::vector<std::string>& notes);

/// Which slots there may be: those that the hosts have, or any, where they are numbers of CUDA_VISIBLE_DEVICES.
enum class KnownSlots : uint8_t { of_hosts, any };

/// Those of `hosts` that `include` names, or that `exclude` does not: "NAME[:SLOT[,SLOT...]][@NAME...]"; at most one of
/// the two is not empty. What is left may be nothing at all.
Hosts filter_hosts(const Hosts& hosts, const std::string& include, const std::string& exclude,
                   KnownSlots known = KnownSlots::of_hosts);

}  // namespace ct
