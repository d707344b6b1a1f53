#include "train/agree.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"
#include "base/version.h"
#include "train/config/schema.h"

namespace ct {
namespace {

struct Difference {
  std::string name, mine, first;
};

std::vector<Difference> differences(const Facts& mine, const Facts& first) {
  const auto value_in = [](const Facts& facts, const std::string& name) -> std::string {
    const auto found = std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == name; });
    return found == facts.end() ? "nothing" : found->second;
  };
  std::vector<Difference> found;
  for (const auto& [name, value] : mine)
    if (const std::string other = value_in(first, name); other != value) found.push_back({name, value, other});
  for (const auto& [name, value] : first)
    if (const std::string own = value_in(mine, name); own == "nothing" && own != value)
      found.push_back({name, own, value});
  return found;
}

}  // namespace

bool any_rank(Communicator& comm, bool mine) {
  std::vector<std::byte> all(static_cast<size_t>(comm.size()));
  const std::byte vote{mine};
  comm.gather_all(std::span(&vote, 1), all);
  return std::any_of(all.begin(), all.end(), [](std::byte b) { return b != std::byte{0}; });
}

void require_same(Communicator& comm, const Facts& mine, const std::string& remedy) {
  const auto first = nlohmann::json::parse(from_rank_0(comm, nlohmann::json(mine).dump())).get<Facts>();
  const std::string first_host = from_rank_0(comm, host_name());
  run_on_all_ranks(comm, [&] {
    const std::vector<Difference> found = differences(mine, first);
    if (found.empty()) return;
    const Difference& d = found.front();
    const size_t more = found.size() - 1;
    fail(ExitCode::usage, d.name, " is ", d.mine, ", but ", d.first, " for rank 0 on host ", first_host,
         more > 0 ? str(" (and ", more, " more differ)") : "", "; ", remedy);
  });
}

void require_same_machine(Communicator& comm, const std::string& device) {
  require_same(comm, Facts{{"device or library", device}, {"program version", std::string(version())}},
               "start every rank with the same program on the same kind of machine");
}

void require_same_config(Communicator& comm, const Config& config) {
  Config copy = config;  // the table binds pointers to members
  Facts facts;
  for (const ConfigField& field : effective_fields(copy)) facts.emplace_back(field.key, field_text(field));
  require_same(comm, facts, "start every rank with the same configuration");
}

void require_same_file(Communicator& comm, const Path& file) {
  if (file.empty() || comm.size() == 1) return;
  std::string checksum = "none";
  run_on_all_ranks(comm, [&] {
    if (!is_there(file, ExitCode::checkpoint) || is_folder(file, ExitCode::checkpoint)) return;
    const MappedFile opened(file, MappedFile::Links::follow, ExitCode::checkpoint);
    checksum = crc_text(crc32c(opened.bytes()));
    opened.require_unchanged(ExitCode::checkpoint);  // else a failing disk would pass for another host's file
  });
  require_same(comm, {{str("the checksum of ", in_quotes(file.native())), checksum}}, "give all hosts the same file");
}

std::vector<uint32_t> replica_checksums(Engine& engine, const Graph& graph) {
  const LoweredProgram& lowered = engine.lowered();
  std::vector<uint32_t> checksums;
  if (lowered.distribution.effective_stage() == 3) return checksums;
  const std::span<const std::byte> params = engine.read_params();
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Range& range = lowered.flat.parameters[i];
    const Run run = intersection(lowered.flat.runs, range).front();
    const size_t bytes = static_cast<size_t>(range.size()) * size_of(run.dtype);
    checksums.push_back(crc32c(params.subspan(static_cast<size_t>(run.byte), bytes)));
  }
  return checksums;
}

void require_same_replicas(Communicator& comm, std::span<const uint32_t> mine, std::span<const Parameter> parameters) {
  std::vector<uint32_t> all(mine.size() * static_cast<size_t>(comm.size()));
  comm.gather_all(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
  run_on_all_ranks(comm, [&] {
    for (size_t i = 0; i < mine.size(); ++i) {
      const auto ranks_with = [&](uint32_t checksum) {
        int count = 0;
        for (size_t at = i; at < all.size(); at += mine.size()) count += all[at] == checksum;
        return count;
      };
      const auto is_of_most = [&](uint32_t checksum) { return 2 * ranks_with(checksum) > comm.size(); };
      if (ranks_with(mine[i]) == comm.size()) continue;
      bool known = false;
      for (size_t at = i; at < all.size(); at += mine.size()) known |= is_of_most(all[at]);
      if (known && is_of_most(mine[i])) return;  // another rank is named
      fail(ExitCode::bug, "its copy of ", parameters[i].name, " differs from that of ",
           known ? "most ranks" : "another rank, and no majority tells which of them is right",
           ", because of faulty memory on a host or a bug; run the same command again to continue from the last "
           "checkpoint, on other hosts if it happens again");
    }
  });
}

}  // namespace ct
