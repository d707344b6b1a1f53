#include "base/core_binding.h"

#include <hwloc.h>

#include <bitset>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/cores.h"
#include "base/error.h"
#include "base/files.h"
#include "base/host.h"
#include "base/text.h"

namespace ct {
namespace {

struct Range {
  int first, last;
};

Range parse_range(std::string_view text) {
  const auto number = [&](std::string_view digits) {
    int value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0 || value >= kMaxCpus)
      fail(ExitCode::usage, "Bad range: ", in_quotes(text),
           ", range must be either a number or two number separated by dash; see --bind_core_list");
    return value;
  };
  const size_t dash = text.find('-');
  const int first = number(text.substr(0, dash)), last = dash == text.npos ? first : number(text.substr(dash + 1));
  if (first > last)
    fail(ExitCode::usage, "Bad range: ", in_quotes(text),
         ", range end must larger than or equal to start; see --bind_core_list");
  return {first, last};
}

/// What hwloc found of this machine.
class Topology {
 public:
  Topology() {
    if (hwloc_topology_init(&topology_) != 0 || hwloc_topology_load(topology_) != 0)
      fail(ExitCode::usage, "hwloc finds no cores here: leave --bind_cores_to_rank out");
  }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  ~Topology() { hwloc_topology_destroy(topology_); }
  hwloc_topology_t get() const { return topology_; }

 private:
  hwloc_topology_t topology_ = nullptr;
};

struct Free {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using CpuSet = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, Free>;

/// The logical CPUs that this process may run on, by core, in hwloc's order, which keeps neighbours together.
std::vector<std::vector<unsigned>> allowed_cores(hwloc_topology_t topology) {
  const std::bitset<kMaxCpus> allowed = allowed_cpus();
  std::vector<std::vector<unsigned>> cores;
  const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  for (int number = 0; number < count; ++number) {
    const hwloc_const_cpuset_t all =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(number))->cpuset;
    std::vector<unsigned> cpus;
    unsigned cpu = 0;
    hwloc_bitmap_foreach_begin(cpu, all) if (cpu < kMaxCpus && allowed[cpu]) cpus.push_back(cpu);
    hwloc_bitmap_foreach_end();
    if (!cpus.empty()) cores.push_back(std::move(cpus));
  }
  return cores;
}

}  // namespace

std::vector<int> parse_core_list(const std::string& text) {
  std::vector<int> cores;
  for (size_t begin = 0;;) {
    const size_t end = text.find(',', begin);
    const auto [first, last] = parse_range(std::string_view(text).substr(begin, end == text.npos ? end : end - begin));
    if (!cores.empty() && first <= cores.back())
      fail(ExitCode::usage, "Bad range: ", in_quotes(text),
           ", sub ranges must not overlap with each other and should be in ascend order; see --bind_core_list");
    for (int core = first; core <= last; ++core) cores.push_back(core);
    if (end == text.npos) return cores;
    begin = end + 1;
  }
}

std::vector<int> share_of(const std::vector<int>& all, int index, int parts) {
  const size_t share = all.size() / static_cast<size_t>(parts);
  if (share == 0)
    fail(ExitCode::usage,
         "At least one core must be assigned to each rank: ", counted(static_cast<int64_t>(all.size()), "core"),
         " for ", counted(parts, "rank"), " of this host; leave --bind_cores_to_rank out, or start fewer");
  const auto first = all.begin() + static_cast<ptrdiff_t>(share * static_cast<size_t>(index));
  return {first, first + static_cast<ptrdiff_t>(share)};
}

void require_cores_here(const std::string& list) {
  const std::bitset<kMaxCpus> allowed = allowed_cpus();
  for (const int cpu : parse_core_list(list))
    if (!allowed[static_cast<size_t>(cpu)])
      fail(ExitCode::usage, "core ", cpu, " of --bind_core_list ", in_quotes(list),
           " does not exist, or is not allowed: this process may run on ",
           counted(available_cores(allowed, {}), "core"), " of ", host_name());
}

void bind_to_share(const std::string& list, int index, int parts) {
  const Topology topology;
  const CpuSet set(hwloc_bitmap_alloc());
  if (!list.empty()) {
    require_cores_here(list);
    for (const int cpu : share_of(parse_core_list(list), index, parts))
      hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  } else {
    const std::vector<std::vector<unsigned>> cores = allowed_cores(topology.get());
    std::vector<int> numbers(cores.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    for (const int number : share_of(numbers, index, parts))
      for (const unsigned cpu : cores[static_cast<size_t>(number)]) hwloc_bitmap_set(set.get(), cpu);
  }
  if (hwloc_set_cpubind(topology.get(), set.get(), HWLOC_CPUBIND_PROCESS) != 0)
    fail(ExitCode::usage, "this process cannot be bound to its cores (", std::strerror(errno),
         "): do they exist, and are they allowed? See --bind_cores_to_rank and --bind_core_list");
}

}  // namespace ct
