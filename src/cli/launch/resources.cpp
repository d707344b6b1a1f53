#include "cli/launch/resources.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"

namespace ct {
namespace {

struct Visible {
  std::string text;  // of CUDA_VISIBLE_DEVICES; empty: not set
  int count = 0;
  bool numbers = true;  // else names of GPUs
};

Visible visible_devices(const Environment& environment) {
  const char* text = environment("CUDA_VISIBLE_DEVICES");
  if (text == nullptr || *text == '\0') return {};
  Visible visible{text, 1 + static_cast<int>(std::ranges::count(std::string_view(text), ',')), true};
  visible.numbers = visible.text.find_first_not_of("0123456789,") == std::string::npos;
  return visible;
}

/// This machine alone, as CUDA_VISIBLE_DEVICES and the options say.
Resources local_resources(const LaunchFlags& flags, const Environment& environment,
                          const std::function<int()>& count_devices, std::vector<std::string>& notes) {
  const bool filtered = !flags.include.empty() || !flags.exclude.empty() || flags.num_gpus > 0 || flags.num_nodes > 0;
  const Visible visible = visible_devices(environment);
  const std::string detected = "Detected VISIBLE_DEVICES=" + visible.text;
  std::string include = flags.include;
  if (!visible.text.empty() && visible.numbers && filtered) {
    notes.push_back(detected +
                    " but ignoring it because one or several of --include/--exclude/--num_gpus/--num_nodes cl args "
                    "were used. If you want to use CUDA_VISIBLE_DEVICES don't pass any of these arguments");
  } else if (!visible.text.empty() && visible.numbers) {
    include = std::string(kLocalHost) + ":" + visible.text;
    notes.push_back(detected + ": setting --include=" + include);
  }
  Resources found{.own_devices = !visible.text.empty() && visible.numbers};
  const int slots = flags.num_gpus > 0 ? flags.num_gpus : !visible.text.empty() ? visible.count : count_devices();
  found.hosts = filter_hosts({{kLocalHost, first_slots(slots)}}, include, flags.exclude,
                             found.own_devices ? KnownSlots::any : KnownSlots::of_hosts);
  if (flags.num_nodes > 1) {  // each starts its own: only how many there are matters
    if (!flags.no_ssh)
      fail(ExitCode::usage,
           "Num nodes is >1 but no extra nodes available via hostfile: give --hostfile, or run the same "
           "command on every host with --no_ssh --node_rank N --master_addr ADDRESS");
    const HostSlots one = found.hosts.at(0);
    found.hosts.assign(static_cast<size_t>(flags.num_nodes), one);
    found.here = false;
  }
  return found;
}

Resources hostfile_resources(const LaunchFlags& flags, const Path& file, std::vector<std::string>& notes) {
  Resources found{.here = false, .hostfile = file};
  found.hosts = filter_hosts(read_hostfile(file, notes), flags.include, flags.exclude);
  if (flags.num_nodes > 0) {
    if (std::cmp_greater(flags.num_nodes, found.hosts.size()))
      fail(ExitCode::usage, "--num_nodes ", flags.num_nodes, ": ", in_quotes(file.native()), " has ",
           found.hosts.size(), " with slots");
    found.hosts.resize(static_cast<size_t>(flags.num_nodes));
  }
  if (flags.num_gpus > 0)
    for (HostSlots& host : found.hosts) host.slots = first_slots(flags.num_gpus);
  const auto other = std::ranges::find_if_not(found.hosts, is_this_host, &HostSlots::name);
  if (other != found.hosts.end()) found.elsewhere = other->name;
  found.here = found.elsewhere.empty() && !flags.force_multi;
  return found;
}

}  // namespace

Resources resources_of(const LaunchFlags& flags, const Environment& environment,
                       const std::function<int()>& count_devices, std::vector<std::string>& notes) {
  if ((!flags.include.empty() || !flags.exclude.empty()) && (flags.num_nodes > 0 || flags.num_gpus > 0))
    fail(ExitCode::usage, "Cannot specify num_nodes/gpus with include/exclude: leave one of the two out");
  const Path file = flags.hostfile.value_or(kHostfile);
  const bool there = is_there(file, ExitCode::usage);
  if (!there && flags.hostfile)
    fail(ExitCode::usage, "Unable to find hostfile ", in_quotes(file.native()),
         ": give its path, or leave --hostfile out to start ranks on this host alone");
  Resources found =
      there ? hostfile_resources(flags, file, notes) : local_resources(flags, environment, count_devices, notes);
  if (found.hosts.empty())
    fail(ExitCode::usage, "no slot is left by ", flags.exclude.empty() ? "--include " : "--exclude ",
         in_quotes(flags.exclude.empty() ? flags.include : flags.exclude), ": there is nothing to start");
  return found;
}

std::string devices_text(const Resources& resources) {
  const bool plain = std::ranges::all_of(resources.hosts, [](const HostSlots& host) {
    return host.slots == first_slots(static_cast<int>(host.slots.size()));
  });
  if (plain && !resources.own_devices) return "";
  std::string text;
  for (const HostSlots& host : resources.hosts) {
    text += text.empty() ? "" : ";";
    for (size_t i = 0; i < host.slots.size(); ++i) text += str(i > 0 ? "," : "", host.slots[i]);
  }
  return text;
}

}  // namespace ct
