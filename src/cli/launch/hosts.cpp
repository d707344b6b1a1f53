#include "cli/launch/hosts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/input.h"
#include "base/text.h"
#include "base/utf8.h"

namespace ct {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";
constexpr int kMostSlots = 65536;                 // of a host
constexpr int64_t kMostRanks = int64_t{1} << 20;  // of all hosts
constexpr uint64_t kLargestHostfile = uint64_t{16} << 20;

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(at, begin);
    parts.push_back(text.substr(begin, end == text.npos ? text.npos : end - begin));
    if (end == text.npos) return parts;
    begin = end + 1;
  }
}

/// As DeepSpeed shows it, without quotes.
std::string shown(std::string_view text) {
  constexpr size_t kLongest = 200;
  return printable(text.substr(0, kLongest)) + (text.size() > kLongest ? "..." : "");
}

/// The number that `text` begins with; what follows does not matter.
std::optional<int> leading_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostSlots) return std::nullopt;
  return number;
}

/// Could ssh or srun take it for an option, or a shell for more than a name? "user@name" and addresses are names.
bool is_host_name(std::string_view text) {
  static constexpr std::string_view kMarks = "._-:%[]@";
  const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || kMarks.find(c) != kMarks.npos; };
  return std::ranges::all_of(text, fits) && text[0] != '-' && text.find("@-") == text.npos;
}

/// "NAME slots=N", what follows N is ignored.
std::optional<HostSlots> parse_line(std::string_view line) {
  constexpr std::string_view kSlots = "slots=";
  const size_t name = line.find_first_of(kBlanks);
  if (name == line.npos) return std::nullopt;
  const std::string_view rest = trimmed(line.substr(name), kBlanks);
  const std::optional<int> count =
      rest.starts_with(kSlots) ? leading_number(rest.substr(kSlots.size())) : std::optional<int>();
  if (!count) return std::nullopt;
  return HostSlots{std::string(line.substr(0, name)), first_slots(*count)};
}

int slot_number(std::string_view text, const std::string& filter) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > kMostSlots)
    fail(ExitCode::usage, "invalid literal for int() with base 10: ", in_quotes(text), " in ", in_quotes(filter),
         ": slots are numbers, as in worker-0:0,2");
  return number;
}

/// A part of a filter: a host, and which of its slots; none given: all of them.
struct Named {
  size_t host;
  std::set<int> slots;
};

Named parse_named(std::string_view text, const Hosts& hosts, const std::string& filter, KnownSlots known) {
  const auto parts = split(text, ':');
  const auto host = std::ranges::find(hosts, parts[0], &HostSlots::name);
  if (host == hosts.end())
    fail(ExitCode::usage, "Hostname ", in_quotes(parts[0]), " not found in hostfile: correct the filter ",
         in_quotes(filter));
  if (parts.size() > 2)
    fail(ExitCode::usage, "too many values to unpack: ", in_quotes(text), " has more than one ':'; write ",
         "NAME:SLOT,SLOT");
  Named named{static_cast<size_t>(host - hosts.begin()), {}};
  if (parts.size() == 1) {
    named.slots.insert(host->slots.begin(), host->slots.end());
    return named;
  }
  for (const std::string_view word : split(parts[1], ',')) {
    const int slot = slot_number(word, filter);
    if (known == KnownSlots::of_hosts && std::ranges::find(host->slots, slot) == host->slots.end())
      fail(ExitCode::usage, "No slot '", slot, "' specified on host ", in_quotes(host->name), ": correct the filter ",
           in_quotes(filter));
    named.slots.insert(slot);
  }
  return named;
}

}  // namespace

int64_t slots_of(const Hosts& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), int64_t{0},
                         [](int64_t sum, const HostSlots& host) { return sum + std::ssize(host.slots); });
}

std::vector<int> first_slots(int count) {
  std::vector<int> slots(static_cast<size_t>(count));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

Hosts parse_hostfile(std::string_view text, const std::string& origin, std::vector<std::string>* notes) {
  constexpr const char* kGivenUp = ", unable to proceed with launching";
  Hosts hosts;
  std::set<std::string> names;
  int number = 0;
  int64_t ranks = 0;
  for (const std::string_view whole : split(without_byte_order_mark(text), '\n')) {
    ++number;
    const std::string_view line = trimmed(whole, kBlanks);
    if (line.empty() || line[0] == '#') continue;
    std::optional<HostSlots> host = parse_line(line);
    if (!host)
      fail(ExitCode::usage, "Hostfile contains a bad entry: ", shown(line), kGivenUp, "; ", origin, ":", number,
           " should read NAME slots=N");
    if (!is_host_name(host->name))
      fail(ExitCode::usage, "Hostfile contains a bad entry: ", shown(line), kGivenUp, "; ", origin, ":", number, ": ",
           shown(host->name), " cannot be the name of a host");
    if (!names.insert(host->name).second)
      fail(ExitCode::usage, "Hostfile contains multiple entries for ", shown(host->name), kGivenUp, "; ", origin, ":",
           number, ": give the host one line");
    hosts.push_back(*std::move(host));
    if ((ranks += std::ssize(hosts.back().slots)) > kMostRanks)
      fail(ExitCode::usage, "Hostfile has more than ", kMostRanks, " slots", kGivenUp, "; ", origin, ":", number,
           ": reduce slots=N");
  }
  for (const HostSlots& host : hosts)
    if (host.slots.empty() && notes != nullptr)
      notes->push_back(str(origin, ": no rank is started on ", shown(host.name), ", which has slots=0"));
  std::erase_if(hosts, [](const HostSlots& host) { return host.slots.empty(); });
  if (hosts.empty())
    fail(ExitCode::usage, "Hostfile is empty or not formatted correctly", kGivenUp, ". ", origin,
         " should have lines NAME slots=N");
  return hosts;
}

Hosts read_hostfile(const Path& path, std::vector<std::string>& notes) {
  return parse_hostfile(read_input(path, kLargestHostfile, ExitCode::usage), path.string(), &notes);
}

Hosts filter_hosts(const Hosts& hosts, const std::string& include, const std::string& exclude, KnownSlots known) {
  if (!include.empty() && !exclude.empty())
    fail(ExitCode::usage, "include_str and exclude_str are mutually exclusive. Give --include or --exclude");
  if (include.empty() && exclude.empty()) return hosts;
  const std::string& filter = include.empty() ? exclude : include;
  std::map<size_t, std::set<int>> named;  // by place in `hosts`
  for (const std::string_view part : split(filter, '@')) {
    Named one = parse_named(part, hosts, filter, known);
    named[one.host].merge(one.slots);
  }
  Hosts left;
  for (size_t i = 0; i < hosts.size(); ++i) {
    std::set<int> slots = named[i];
    if (include.empty()) {
      const std::set<int> without = std::move(slots);
      slots = std::set<int>(hosts[i].slots.begin(), hosts[i].slots.end());
      std::erase_if(slots, [&](int slot) { return without.contains(slot); });
    }
    if (!slots.empty()) left.push_back({hosts[i].name, {slots.begin(), slots.end()}});
  }
  return left;
}

}  // namespace ct
