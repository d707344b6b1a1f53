// bench eval: how long the evaluation of a picture takes, and what fast feedforward layers save of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "base/random.h"
#include "cli/bench/bench.h"
#include "cli/bench/ops.h"
#include "cli/verbs.h"
#include "train/session.h"

namespace ct {
namespace {

/// Windows of evaluations of the first test pictures by initial weights.
class EvalBench {
 public:
  EvalBench(const BenchFlags& flags, const Config& config, Communicator& comm)
      : flags_(flags),
        session_(config, comm,
                 {.memory_advice = "use a smaller train.eval_batch_size (--set)",
                  .warn = comm.rank() == 0 ? warn : nullptr,
                  .progress = flags.progress}) {
    session_.prepare();
    session_.make_data();
    session_.initialize();
  }

  Spread run() {
    const Datasets& data = session_.data();
    const ImagePart part = data.testing().empty() ? data.validation() : data.testing();
    const EvalPipeline pictures(*part.set, part.images, evaluator().batch());
    size_t filled = 0;  // inputs that take turns, each of which keeps its pictures
    return time_windows(session_.comm(), flags_, "batches of evaluation", [&](int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const Inputs in = evaluator().inputs();
        if (filled < kInputSlots) {
          pictures.fill(0, in);
          ++filled;
        }
        session_.comm().heartbeat().advance(Phase::evaluation);
        evaluator().run();
      }
    });
  }
  void finish() { session_.finish(); }
  Evaluator& evaluator() { return session_.evaluator(); }
  Backend& backend() { return session_.backend(); }

 private:
  const BenchFlags& flags_;
  TrainingSession session_;
};

/// Times of the fast feedforward layers of a program that evaluates: by the units that a row visits, and by all of them
/// as in training.
class FastLayers {
 public:
  FastLayers(Evaluator& evaluator, Backend& backend, const OpTimingOptions& options)
      : bound_(evaluator.bound()), backend_(backend), options_(options), values_(bound_.lowered().values) {
    for (const Step& step : bound_.lowered().micro)
      if (const auto* op = std::get_if<ComputeOp>(&step.op))
        if (const Fff* layer = std::get_if<Fff>(op)) time(*layer);
  }
  int count = 0;
  double visited = 0, all = 0;  // seconds of a batch, in all layers

 private:
  void time(const Fff& op) {
    const ValueId x = take(op.x), y = take(op.y);
    Value wide = values_[static_cast<size_t>(op.x)];
    wide.shape[wide.shape.rank() - 1] = op.trees.width();
    const ValueId sums = take(wide), values = take(wide);
    fill(x);
    const auto seconds = [&](const ComputeOp& one) {
      const auto tensor = [&](ValueId id) {
        const auto found = own_.find(id);
        if (found == own_.end()) return bound_.tensor(id);
        const Value& value = values_[static_cast<size_t>(id)];
        return Tensor{found->second.data(), value.dtype, value.shape};
      };
      return time_operation(backend_, one, values_, tensor, options_);
    };
    ++count;
    visited += seconds(Fff{x, op.w_in, op.b_in, op.w_out, y, op.trees});
    all += seconds(Linear{x, op.w_in, op.b_in, sums}) + seconds(TreeGelu{sums, values, op.trees}) +
           seconds(Linear{values, op.w_out, kNone, y});
    own_.clear();
  }
  /// A value like `like`, in memory of its own: that of the program's is another value's by now.
  ValueId take(const Value& like) {
    values_.push_back({.name = like.name, .shape = like.shape, .dtype = like.dtype});
    const auto id = static_cast<ValueId>(values_.size() - 1);
    own_[id] = backend_.allocate(static_cast<size_t>(stored_bytes(like)));
    return id;
  }
  ValueId take(ValueId like) { return take(Value(values_[static_cast<size_t>(like)])); }
  /// Numbers of mean 0 and variance 1, as after a layer norm; pads are zero.
  void fill(ValueId id) {
    const Value value = values_[static_cast<size_t>(id)];
    const ValueId wide = take({.name = value.name, .shape = value.shape});
    auto* at = reinterpret_cast<float*>(own_[wide].data());
    std::memset(at, 0, own_[wide].bytes());
    Random random(1, Purpose::init);
    for (int64_t r = 0; r < value.shape.rows(); ++r)
      for (int64_t c = 0; c < value.shape.columns(); ++c)
        at[r * value.shape.stride() + c] = static_cast<float>(std::sqrt(12.0) * (random.uniform() - 0.5));
    const auto kernel = backend_.prepare(Cast{wide, id}, values_);
    kernel->bind(
        [&](ValueId of) {
          const Value& one = values_[static_cast<size_t>(of)];
          return Tensor{own_.at(of).data(), one.dtype, one.shape};
        },
        nullptr);
    kernel->launch();
  }

  BoundProgram& bound_;
  Backend& backend_;
  const OpTimingOptions options_;
  std::vector<Value> values_;
  std::map<ValueId, Memory> own_;
};

/// The same network with two linear layers in the place of each fast one; none where it has none.
std::optional<Config> with_linear_layers(Config config) {
  const std::vector<ConfigKey> keys = config.model.keys();
  for (const ConfigKey& key : keys)
    if (const auto* choice = std::get_if<Choice>(&key.target); choice && key.name == "ffn" && choice->word() == "fff") {
      choice->choose("mlp");
      return config;
    }
  return std::nullopt;
}

/// A line each about fast feedforward layers, and about the network without them, if it has some: on a CPU, one rank.
std::string compare_fast_layers(const BenchFlags& f, const Config& config, Communicator& comm, EvalBench& bench,
                                double seconds, Json& result) {
  const double batch = static_cast<double>(bench.evaluator().batch());
  const FastLayers fast(bench.evaluator(), bench.backend(), {.windows = f.windows, .window = std::min(f.window, 0.05)});
  if (fast.count == 0) return "";
  std::string text = fmt::format(
      "\n{} fast feedforward layers: {:.2f} us per picture by the units that tokens visit, {:.2f} us by all units "
      "({:.2f} times as long)",
      fast.count, 1e6 * fast.visited / batch, 1e6 * fast.all / batch, fast.all / fast.visited);
  result["fff_us"] = 1e6 * fast.visited / batch;
  result["fff_all_units_us"] = 1e6 * fast.all / batch;
  if (const auto linear = with_linear_layers(config)) {
    EvalBench other(f, *linear, comm);
    const double dense = other.run().median;
    other.finish();
    text += fmt::format("\nthe network with ffn mlp: {:.1f} us per picture ({:.2f} times as long)", 1e6 * dense / batch,
                        dense / seconds);
    result["mlp_picture_us"] = 1e6 * dense / batch;
  }
  return text;
}

}  // namespace

int bench_eval(const BenchFlags& f, const Config& config, Communicator& comm) {
  EvalBench bench(f, config, comm);
  const Spread time = bench.run();
  const int64_t batch = bench.evaluator().batch();
  const double pictures = static_cast<double>(batch * comm.size()), each = 1e6 / static_cast<double>(batch);
  Json result = {{"bench", "eval"},
                 {"model", config.model.name},
                 {"batch", batch},
                 {"ranks", comm.size()},
                 {"samples_per_sec", pictures / time.median},
                 {"picture_us", each * time.median},
                 {"picture_us_min", each * time.min},
                 {"picture_us_max", each * time.max}};
  const std::string line =
      fmt::format("{:.0f} images/s ({:.0f} - {:.0f}), {:.1f} us per picture on one rank", pictures / time.median,
                  pictures / time.max, pictures / time.min, each * time.median);
  std::string text = str(config.model.name, config.bf16.enabled == true ? " bf16" : "", ", evaluation in batches of ",
                         batch, " on ", comm.size(), " ranks, ", bench.backend().description(), ": ", line);
  if (comm.size() == 1 && bench.backend().is_host())
    text += compare_fast_layers(f, config, comm, bench, time.median, result);
  bench.finish();
  if (comm.rank() == 0) print(f, result, text);
  return 0;
}

}  // namespace ct
