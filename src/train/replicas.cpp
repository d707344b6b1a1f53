#include "train/replicas.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "train/agree.h"

namespace ct {

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

void require_same_replicas(Communicator& comm, Engine& engine, const Graph& graph) {
  const std::vector<uint32_t> mine = replica_checksums(engine, graph);
  std::vector<uint32_t> first = mine;
  comm.broadcast(std::as_writable_bytes(std::span(first)), 0);
  run_on_all_ranks(comm, [&] {
    for (size_t i = 0; i < mine.size(); ++i)
      if (mine[i] != first[i])
        fail(ExitCode::bug, "its copy of ", graph.parameters()[i].name,
             " differs from rank 0's, because of faulty memory on one of their hosts or a bug; run the same command "
             "again to continue from the last checkpoint, on other hosts if it happens again");
  });
}

}  // namespace ct
