#include "checkpoint/save.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "comm/all_ranks.h"

namespace ct {
namespace {

/// Linux keeps a priority for every thread, by its thread id.
void give_way() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19); }

template <class T>
bool is_ready(const std::future<T>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

bool all_ranks(Communicator& comm, bool mine) {
  const uint8_t vote = mine;
  const auto votes = gather<uint8_t>(comm, std::span(&vote, 1));
  return std::ranges::all_of(votes, [](uint8_t v) { return v != 0; });
}

}  // namespace

CheckpointSave::CheckpointSave(Communicator& comm, Store& store, SaveContents contents)
    : comm_(comm), store_(store), contents_(std::move(contents)) {
  contents_.metadata.merge(store_.marks(contents_.step));
  const std::string metadata = from_rank_0(comm, nlohmann::json(contents_.metadata).dump());
  plan_.emplace(contents_.weights, nlohmann::json::parse(metadata).get<Metadata>());
  agree([&] {
    if (comm_.rank() != 0) return;
    store_.begin(contents_.step);
    file_.emplace(store_.create_weights(contents_.step));
    file_->truncate(plan_->bytes());
  });
  writing_ = std::async(std::launch::async, [this] { return write(); });
}

void CheckpointSave::after_bucket() {
  ++buckets_;
  if (given_up_) fail(ExitCode::io, "the checkpoint of step ", contents_.step, " was given up");
}

CheckpointSave::Own CheckpointSave::write() {
  Own own;
  // Both files at once from a snapshot; what is read from an engine only one thread may read at a time.
  const auto launch = contents_.background ? std::launch::async : std::launch::deferred;
  std::future<void> shard = std::async(launch, [&] { write_shard(own); });
  if (contents_.background) give_way();
  const bool first = comm_.rank() == 0;
  // Open for writing only: a client of a network file system then sends the bytes written and never their whole page.
  std::optional<File> file;
  if (!first) file.emplace(store_.open_weights(contents_.step));
  own.weights = write_rows(first ? *file_ : *file, *plan_, contents_.own_weights, contents_.read_weights,
                           [&] { after_bucket(); });
  if (!first) {  // rank 0 has the header to write yet
    file->sync();
    file->close();
  }
  shard.get();
  return own;
}

void CheckpointSave::write_shard(Own& own) {
  if (contents_.background) give_way();
  // A file of what is owned alone, whose tensor i is contents_.own_moments[i].
  Metadata metadata = store_.marks(contents_.step, comm_.rank(), comm_.size());
  std::vector<TensorSpec> specs;
  std::vector<Rows> rows;
  for (const Rows& owned : contents_.own_moments) {
    TensorSpec spec = contents_.moments[owned.tensor];
    if (!spec.shape.empty()) {
      metadata[kRowsKey + spec.name] = rows_text(owned.begin, owned.end, spec.shape[0]);
      spec.shape[0] = owned.end - owned.begin;
    }
    rows.push_back({specs.size(), 0, owned.end - owned.begin});
    specs.push_back(std::move(spec));
  }
  const SafetensorsPlan plan(std::move(specs), std::move(metadata));
  File file = store_.create_shard(contents_.step, comm_.rank(), comm_.size());
  const ReadRows read = [&](const Rows& some, std::span<std::byte> out) {
    const Rows& owned = contents_.own_moments[some.tensor];
    contents_.read_moments({owned.tensor, owned.begin + some.begin, owned.begin + some.end}, out);
  };
  const auto written = write_rows(file, plan, rows, read, [&] { after_bucket(); });
  for (const size_t i : not_finite(written)) own.moments_not_finite.push_back(contents_.own_moments[i].tensor);
  const auto crcs = join(plan, written);
  file.write_at(plan.header(crcs), 0);
  file.sync();
  file.close();
  own.shard = {file.path().filename().native(), plan.bytes(), plan.crc(crcs)};
}

void CheckpointSave::end(All all) {
  if (contents_.background) give_way();
  const auto weight_crcs = join(*plan_, std::move(all.weights));
  file_->write_at(plan_->header(weight_crcs), 0);
  file_->sync();
  file_->close();
  std::vector<Part> parts = std::move(all.shards);
  parts.push_back({file_->path().filename().native(), plan_->bytes(), plan_->crc(weight_crcs)});
  store_.commit(contents_.step, std::move(parts), contents_.state, std::move(all.not_finite));
  if (contents_.after_commit) contents_.after_commit();
}

/// All ranks have written: rank 0 learns what.
void CheckpointSave::collect() {
  Own own;
  agree([&] { own = writing_.get(); });
  All all{.weights = gather<WrittenRows>(comm_, own.weights)};
  struct Sum {
    uint64_t bytes;
    uint32_t crc;
  };
  const Sum sum{own.shard.bytes, own.shard.crc};
  const auto sums = gather<Sum>(comm_, std::span(&sum, 1));
  for (size_t r = 0; r < sums.size(); ++r)
    all.shards.push_back({shard_name(static_cast<int>(r), comm_.size()), sums[r].bytes, sums[r].crc});
  std::set<std::string> names;
  for (const size_t i : not_finite(all.weights)) names.insert(contents_.weights[i].name);
  for (const size_t i : gather<size_t>(comm_, own.moments_not_finite)) names.insert(contents_.moments[i].name);
  all.not_finite.assign(names.begin(), names.end());
  collected_ = true;
  if (comm_.rank() != 0) return;
  ending_ = std::async(std::launch::async, [this, all = std::move(all)]() mutable { end(std::move(all)); });
}

/// Waits, and is alive to watchdogs for as long as buckets get written.
template <class T>
void CheckpointSave::wait_for(const std::future<T>& future) {
  int64_t seen = -1;
  do {
    const int64_t now = buckets_;
    if (now != seen) comm_.heartbeat().advance(Phase::save);
    seen = now;
  } while (future.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready);
}

bool CheckpointSave::advance(bool wait) {
  if (!collected_) {
    if (wait) wait_for(writing_);
    if (!wait && !all_ranks(comm_, is_ready(writing_))) return false;
    collect();
    return false;
  }
  const bool first = comm_.rank() == 0;
  if (wait && first) wait_for(ending_);
  if (!wait && !all_ranks(comm_, !first || is_ready(ending_))) return false;
  agree([&] {
    if (first) ending_.get();
  });
  return true;
}

void CheckpointSave::agree(const std::function<void()>& work) {
  try {
    run_on_all_ranks(comm_, work);
  } catch (const Error&) {
    if (comm_.rank() == 0) {
      file_.reset();
      store_.abandon(contents_.step);
    }
    throw;
  }
}

}  // namespace ct
