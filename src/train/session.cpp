#include "train/session.h"

#include <algorithm>

#include "base/error.h"
#include "base/in_flight.h"
#include "base/seconds.h"
#include "data/description.h"
#include "train/agree.h"
#include "train/class_balance.h"
#include "train/memory/resident_images.h"

namespace ct {

TrainingSession::TrainingSession(const Config& config, Communicator& comm, Options options)
    : config_(config),
      comm_(comm),
      options_(std::move(options)),
      batch_(batch_for(config.batch, comm.size())),
      device_(config, comm, options_.memory_advice) {
  require_same_machine(comm, backend().description());
  require_same_config(comm, config);
  progress("opening the data");
  data_ = open_datasets(config, comm, options_.if_absent, options_.data_kinds, options_.keeps_run);
}

void TrainingSession::prepare(const std::string& plans, const LearningPhase& phase) {
  progress("planning the program");
  run_on_all_ranks(comm_, [&] { require_arithmetic(config_, backend()); });  // of a resumed run it is the saved one
  spec_ = data_.spec();
  spec_.resident = may_be_resident(config_, spec_);
  const auto lower = [&] {
    programs_ = lower_programs(phase.freezes ? config_ : without_freezing(config_), batch_,
                               {comm_.rank(), comm_.size()}, spec_);
  };
  lower();
  PipelineOptions reading = pipeline_options(config_, batch_, distribution(), comm_.rank());
  const std::vector<int64_t> counts = class_counts(*data_.train, data_.parts.training);
  run_on_all_ranks(comm_, [&] { reading.class_weights = class_weights(config_, data_.train->class_names(), counts); });
  reading.arrived = [this] { comm_.heartbeat().advance(Phase::data); };
  pipeline_ = std::make_unique<Pipeline>(*data_.train, data_.parts.training, std::move(reading));
  if (config_.cpu.autotune || config_.cuda.autotune) progress("timing the libraries' algorithms (autotune)");
  agree_on_plans(plans);
  progress("preparing the program");
  // Training and evaluation take turns in one arena.
  const int64_t evaluation = options_.evaluates ? plan_program(backend(), programs_.evaluate).arena_bytes : 0;
  comm_.barrier();  // all ranks have opened the libraries, which take their part, and none has allocated
  settle_memory(lower);
  try {
    allocate(evaluation, phase.optimizer_begun);
  } catch (...) {
    const Error error = error_in_flight();
    if (error.code() != ExitCode::memory) throw;
    evaluator_.reset();
    engine_.reset();
    std::string text = error.what();
    const std::string better = micro_batch_advice(backend(), estimated());
    for (const std::string& general : {options_.memory_advice, std::string(kUseLess)})
      if (const size_t at = text.find(general); !better.empty() && !general.empty() && at != text.npos)
        text.replace(at, general.size(), better);
    fail(ExitCode::memory, text);
  }
  require_same_machine(comm_, backend().description());  // with the libraries that were opened meanwhile
  plans_missed_ = gather_plans_missed();
}

/// Rank 0 chooses the ways of a device's libraries, or takes the checkpoint's; all ranks go them. A CPU's are the same
/// on all ranks by themselves, unless they are timed.
void TrainingSession::agree_on_plans(const std::string& plans) {
  run_on_all_ranks(comm_, [&] {
    if (comm_.rank() != 0) return;
    backend().plans.use(plans);
    if (backend().is_host() && !config_.cpu.autotune) return;
    plan_program(backend(), programs_.train);
    if (options_.evaluates) plan_program(backend(), programs_.evaluate);
  });
  backend().plans.use(from_rank_0(comm_, comm_.rank() == 0 ? backend().plans.text() : ""));
}

EstimateOf TrainingSession::estimated() const {
  return {.config = config_, .batch = batch_, .ranks = comm_.size(), .data = spec_, .sharing = device_.sharing()};
}

void TrainingSession::allocate(int64_t least_arena, int64_t optimizer_begun) {
  BindOptions bind{.least_arena = least_arena,
                   .queue = comm_queue_options(config_),
                   .record = config_.cuda.record,
                   .time_phases = config_.wall_clock_breakdown,
                   .warn = options_.warn,
                   .exchanged = options_.exchanged};
  engine_ = std::make_unique<Engine>(backend(), collectives(), programs_.train,
                                     step_schedule(config_, length(), optimizer_begun), bind);
  // Its copy on the host is made before there are collectives, beside which nothing should be allocated.
  if (config_.communication.check_interval > 0 && distribution().effective_stage() < 3) engine_->read_params();
  if (options_.evaluates) {
    bind.params = engine_->params();
    bind.arena = engine_->bound().arena();
    bind.time_phases = false;
    evaluator_ = std::make_unique<Evaluator>(backend(), collectives(), programs_.evaluate, bind);
  }
}

/// The training images lie on the GPUs if they fit on all of them; then all else fits too.
void TrainingSession::settle_memory(const std::function<void()>& lower) {
  std::optional<Backend::Room> room;
  run_on_all_ranks(comm_, [&] { room = backend().room(); });
  if (spec_.resident) {
    bool fit = false;
    run_on_all_ranks(comm_, [&] {
      fit = images_fit(backend(), estimated(), static_cast<int>(config_.zero_optimization.stage), room);
    });
    if (!any_rank(comm_, !fit)) return;
    spec_.resident = false;
    lower();
  }
  run_on_all_ranks(comm_, [&] {
    require_device_memory(backend(), estimated(), room);
    if (!room && comm_.rank() == 0) require_group_memory(backend(), estimated());  // a job's hosts have one limit
  });
}

std::string TrainingSession::gather_plans_missed() {
  const std::vector<std::string> all = comm_.gather(backend().plans.missed());
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) return rank == 0 ? all[rank] : str("rank ", rank, ": ", all[rank]);
  return "";
}

/// Between barriers: a collective under way must not meet the allocation of what the images pass through.
void TrainingSession::upload_images() {
  images_uploaded_ = true;
  if (engine_->resident_images() == 0) return;
  const DataSet& set = *data_.train;
  const size_t bytes = set.shape().bytes();
  comm_.barrier();
  engine_->write_images([&](int64_t first, std::span<uint8_t> to) {
    comm_.heartbeat().advance(Phase::data);
    for (size_t at = 0; at < to.size(); at += bytes, ++first) set.read(first, {}, to.data() + at);
    set.check_not_cut();
  });
  comm_.barrier();
}

/// That of a micro-step, and of as many of the epoch's after it as travel together.
void TrainingSession::write_inputs(int64_t epoch, int64_t batch, int64_t micro_step) {
  const Distribution& d = distribution();
  const int64_t first = batch * d.accumulation + micro_step;
  const int64_t count = std::min(engine_->inputs_at_once(), steps_per_epoch() * d.accumulation - first);
  for (int64_t ahead = 0; ahead < count; ++ahead) {
    const int64_t n = first + ahead;
    const int k = d.micro_batch(comm_.rank(), static_cast<int>(n % d.accumulation));
    pipeline_->fill(epoch, n / d.accumulation, k, engine_->inputs(ahead));
  }
}

void TrainingSession::step(int64_t epoch, int64_t batch, bool compare_replicas) {
  const Distribution& d = distribution();
  const bool compares = compare_replicas && comm_.size() > 1;
  if (!images_uploaded_) upload_images();  // only now: make_data() may write them after prepare()
  for (int j = 0; j < d.accumulation; ++j) {
    comm_.heartbeat().advance(Phase::data);
    const int64_t input = (epoch * steps_per_epoch() + batch) * d.accumulation + j;
    if (engine_->inputs_left() == 0 || input != next_input_)
      waited_ += seconds_of([&] { write_inputs(epoch, batch, j); });
    next_input_ = input + 1;
    comm_.heartbeat().advance(Phase::step);
    if (compares || j + 1 < d.accumulation) engine_->micro_step();
  }
  if (!compares) return engine_->finish_step();
  // Before the update: a gather of stages 1 and 2 would replace what differs.
  require_same_replicas(comm_, replica_checksums(*engine_, graph()), graph().parameters());
  engine_->update();
}

void TrainingSession::run_steps(int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i) step(i / steps_per_epoch(), i % steps_per_epoch());
  engine_->settle();
  engine_->drain_losses();
  engine_->drain_balances();
  engine_->drain_outcomes();
}

void TrainingSession::check_data() const {
  for (const DataSet* set : data_.all()) set->check_unchanged();
}

void TrainingSession::finish() {
  evaluator_.reset();
  engine_.reset();
  device_.finish();
}

}  // namespace ct
