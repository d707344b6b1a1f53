#include "train/reports/memory_breakdown.h"

#include <algorithm>

#include "base/error.h"
#include "base/host.h"
#include "base/text.h"

namespace ct {
namespace {

std::string bytes(int64_t n) { return human_bytes(static_cast<uint64_t>(std::max<int64_t>(n, 0))); }

int64_t largest_workspace(const BoundProgram& program) {
  int64_t most = 0;
  for (const MemoryPlan::Place& place : program.plan().workspace) most = std::max(most, place.bytes);
  return most;
}

int64_t largest_workspace(TrainingSession& session) {
  return std::max(largest_workspace(session.engine().bound()), largest_workspace(session.evaluator().bound()));
}

}  // namespace

MemoryKinds planned_memory(TrainingSession& session, const Config& config) {
  const EstimateOf what{.config = config,
                        .batch = session.batch(),
                        .ranks = session.comm().size(),
                        .rank = session.comm().rank(),
                        .data = session.spec(),
                        .sharing = session.device().sharing()};
  const int stage = static_cast<int>(config.zero_optimization.stage);
  const RankMemory rank = estimate_stage(session.backend(), what, stage).rank;
  return {.parameters = rank.use.weights,
          .gradients = rank.use.gradients + rank.received,
          .optimizer = rank.use.optimizer,
          .activations = rank.use.activations,
          .workspace = largest_workspace(session),
          .buckets = rank.use.exchange,
          .snapshot = rank.snapshot,
          .offloaded = rank.use.host,
          .images = rank.use.images,
          .other = rank.use.other + rank.mirrors + rank.staged + rank.overhead};
}

MemoryKinds used_memory(TrainingSession& session, size_t snapshot_bytes) {
  const MemoryUse train = session.engine().bound().allocated(), evaluate = session.evaluator().bound().allocated();
  return {.parameters = train.weights + evaluate.weights,
          .gradients = train.gradients,
          .optimizer = train.optimizer,
          .activations = train.activations + evaluate.activations,
          .workspace = largest_workspace(session),
          .buckets = train.exchange + evaluate.exchange,
          .snapshot = static_cast<int64_t>(snapshot_bytes),
          .offloaded = train.host,
          .images = train.images,
          .other = train.other + evaluate.other};
}

std::string memory_line(const std::string& title, const MemoryKinds& kinds) {
  std::string text = "memory " + title + ": ";
  const auto add = [&](const char* kind, int64_t n) {
    if (n > 0) text += str(kind, " ", bytes(n), ", ");
  };
  add("parameters", kinds.parameters);
  add("gradients", kinds.gradients);
  add("optimizer states", kinds.optimizer);
  if (kinds.workspace > 0)
    text += str("activations ", bytes(kinds.activations), " (workspace up to ", bytes(kinds.workspace), " of it), ");
  else
    add("activations", kinds.activations);
  add("gradient buckets", kinds.buckets);
  add("snapshot for saving", kinds.snapshot);
  add("offloaded optimizer states", kinds.offloaded);
  add("training images", kinds.images);
  add("other", kinds.other);
  return text + "in all " + bytes(kinds.total());
}

std::string process_line(const std::string& when, const std::optional<Backend::Room>& room) {
  std::string text = "memory of the process " + when + ": ";
  if (const int64_t now = proportional_bytes(); now > 0) text += bytes(now) + " resident, ";
  text += bytes(peak_resident_bytes()) + " at its peak";
  if (room)
    text += str("; ", room->device, ": ", bytes(room->total - room->available), " of ", bytes(room->total), " taken");
  return text;
}

}  // namespace ct
