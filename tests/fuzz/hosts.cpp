#include "cli/launch/hosts.h"

#include "target.h"

namespace ct::fuzz::hosts {
namespace {

/// The first line is --include, the second --exclude, the rest a hostfile.
void read(Input input) {
  std::string_view text = text_of(input);
  const auto line = [&] {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string found(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return found;
  };
  const std::string include = line(), exclude = line();
  const Hosts hosts = parse_hostfile(text, "hosts");
  slots_of(filter_hosts(hosts, include, ""));
  slots_of(filter_hosts(hosts, "", exclude, KnownSlots::any));
}

const Registered registered({.name = "hosts", .refusals = {ExitCode::usage}, .read = read});

}  // namespace
}  // namespace ct::fuzz::hosts
