#include "plan/lower.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "plan/step_scalars.h"

namespace ct {
namespace {

/// ZeRO (Rajbhandari et al., arXiv 1910.02054) as a table: what each rank keeps whole. Whole states need all gradients
/// (all-reduce), others the owned ones (reduce-scatter: after the step where gradients are whole, else after every
/// micro-step). Parameters that are whole while states are not are gathered after the update.
struct ZeroRow {
  bool whole_params, whole_grads, whole_states, gather_after_update;
};
constexpr ZeroRow kZero[] = {
    {true, true, true, false},
    {true, true, false, true},
    {true, false, false, true},
    {false, false, false, false},
};

constexpr int64_t kFloat = sizeof(float);

class Lowering {
 public:
  Lowering(const Graph& graph, const Distribution& d) : graph_(graph), zero_(kZero[d.effective_stage()]) {
    check(d.zero_stage >= 0 && d.zero_stage <= 3, "ZeRO stage ", d.zero_stage);
    out_.values = graph.values();
    out_.ports = graph.ports;
    out_.distribution = d;
    out_.flat = flatten_parameters(graph_);
    out_.shards = Shards(out_.flat, d.ranks);
    whole_ = {{{0, out_.flat.numel}, DType::f32, 0}};
    packed_ = out_.shards.packed(d.rank, whole_);
    mixed_ = d.zero.offload_optimizer || std::any_of(out_.flat.runs.begin(), out_.flat.runs.end(),
                                                     [](const Run& r) { return r.dtype != DType::f32; });
    alias_flattened();
    place_params();
  }

  Lowered training(const UpdateRule& rule) {
    place_masters();
    if (rule.loss_scale) scale_loss(*rule.loss_scale);
    place_gradients();
    compute(out_.micro, /*last=*/false);
    compute(out_.last, /*last=*/true);
    update(rule);
    if (zero_.gather_after_update || persistent_value_ != kNone)
      for (Program* program : {&out_.micro, &out_.last}) wait_for_update(*program);
    lane_ = 0;
    gather_params(out_.begin, [this](const Range& range) {
      for (const Slice& s : slices(range))
        if (s.copy != kNone) emit(out_.begin, Cast{s.masters, s.copy});
    });
    return std::move(out_);
  }

  Lowered evaluation() {
    compute(out_.micro, /*last=*/false);
    return std::move(out_);
  }

 private:
  // ---- values

  ValueId add(Value value) {
    out_.values.push_back(std::move(value));
    return static_cast<ValueId>(out_.values.size() - 1);
  }
  /// Peers read it, if there are any.
  Home shared() const { return out_.distribution.ranks > 1 ? Home::shared : Home::resident; }
  ValueId buffer(const std::string& name, int64_t bytes, Account account, Home home = Home::resident) {
    return add({.name = name, .shape = {bytes}, .dtype = DType::u8, .home = home, .account = account});
  }
  ValueId floats(const std::string& name, int64_t numel, Account account, Home home = Home::resident) {
    return add({.name = name, .shape = {numel}, .home = home, .account = account});
  }
  void place(ValueId id, ValueId base, int64_t byte) {
    Value& value = out_.values[static_cast<size_t>(id)];
    value.base = base;
    value.offset = byte;
    value.account = out_.values[static_cast<size_t>(base)].account;
  }
  ValueId view(ValueId base, int64_t byte, int64_t numel, DType dtype = DType::f32) {
    const Value& of = out_.values[static_cast<size_t>(base)];
    const Value value{
        .name = of.name, .shape = {numel}, .dtype = dtype, .base = base, .offset = byte, .account = of.account};
    return add(value);
  }

  /// A flattened image whose rows need no padding is the image itself: a view, and no operation.
  void alias_flattened() {
    const auto alias = [this](ValueId from, ValueId to) {
      if (graph_[from].shape.stored() != graph_[to].shape.stored() || graph_[from].dtype != graph_[to].dtype)
        return false;
      place(to, from, 0);
      return true;
    };
    for (const ComputeOp& op : graph_.ops()) {
      bool dropped = false;
      if (const auto* flat = std::get_if<Flatten>(&op)) dropped = alias(flat->x, flat->y);
      if (const auto* flat = std::get_if<FlattenGrad>(&op)) dropped = alias(flat->dy, flat->dx);
      if (!dropped) ops_.push_back(op);
    }
  }

  /// What layers compute with: whole, or packed shards and, for each unit, room for what is gathered.
  void place_params() {
    const FlatLayout& flat = out_.flat;
    const Distribution& d = out_.distribution;
    if (zero_.whole_params) {
      out_.params =
          buffer("params", flat.compute_bytes, Account::weights, zero_.gather_after_update ? shared() : Home::resident);
      for (size_t i = 0; i < flat.parameters.size(); ++i)
        place(graph_.parameters()[i].value, out_.params, byte_of(flat.runs, flat.parameters[i].begin));
      return;
    }
    shard_runs_ = out_.shards.packed(d.rank, flat.runs);
    int64_t largest = 0;  // peers find a shard at the same place everywhere, so all are as long as the longest
    for (int r = 0; r < d.ranks; ++r) largest = std::max(largest, bytes_of(out_.shards.packed(r, flat.runs)));
    out_.params = buffer("parameter shard", largest, Account::weights, shared());

    unit_place_.resize(flat.units.size());
    int64_t persistent_bytes = 0;
    for (size_t i : by_place()) {
      const Parameter& p = graph_.parameters()[i];
      const Range padded{flat.parameters[i].begin, round_up(flat.parameters[i].end, kRowPad)};
      const DType dtype = graph_[p.value].dtype;
      const int64_t bytes = padded.size() * static_cast<int64_t>(size_of(dtype));
      const bool whole = p.is_vector() && p.layout.numel() <= d.zero.persistence_threshold;
      std::vector<Run>& runs = whole ? persistent_ : unit_place_[static_cast<size_t>(p.unit)];
      const int64_t byte = round_up(whole ? persistent_bytes : bytes_of(runs), 64);
      runs.push_back({padded, dtype, byte});
      if (whole) persistent_bytes = byte + bytes;
    }
    if (!persistent_.empty()) persistent_value_ = buffer("persistent parameters", persistent_bytes, Account::weights);
    for (size_t u = 0; u < unit_place_.size(); ++u)
      unit_value_.push_back(unit_place_[u].empty() ? kNone
                                                   : buffer("gathered " + graph_.units()[u], bytes_of(unit_place_[u]),
                                                            Account::weights, Home::transient));
    for (size_t i = 0; i < flat.parameters.size(); ++i) {
      const Parameter& p = graph_.parameters()[i];
      const int64_t begin = flat.parameters[i].begin;
      const auto unit = static_cast<size_t>(p.unit);
      const bool whole = clip(persistent_, {begin, begin + 1}).size() == 1;
      place(p.value, whole ? persistent_value_ : unit_value_[unit],
            byte_of(whole ? persistent_ : unit_place_[unit], begin));
    }
  }
  std::vector<size_t> by_place() const {
    std::vector<size_t> order(out_.flat.parameters.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return out_.flat.parameters[a].begin < out_.flat.parameters[b].begin; });
    return order;
  }

  /// f32 masters: the params themselves where layers compute in f32.
  void place_masters() {
    if (!mixed_)
      out_.states.push_back({"weights", out_.params, zero_.whole_params ? whole_ : shard_runs_});
    else
      out_.states.push_back(state("weights", Account::optimizer));
  }
  HeldState state(const std::string& name, Account account) {
    const std::vector<Run>& held = zero_.whole_states ? whole_ : packed_;
    const Home home = out_.distribution.zero.offload_optimizer ? Home::host : Home::resident;
    return {name, floats(name, bytes_of(held) / kFloat, account, home), held};
  }

  void scale_loss(const LossScaleOptions& options) {
    out_.first_loss_scale = {.scale = options.initial, .hysteresis_left = options.hysteresis};
    out_.loss_scale = buffer("loss scale", sizeof(LossScaleState), Account::other);
    for (ComputeOp& op : ops_)
      if (auto* loss = std::get_if<SoftmaxCrossEntropy>(&op)) loss->loss_scale = out_.loss_scale;
  }

  // ---- gradients

  /// Units whose gradients are reduced together, and the collectives that do it.
  struct Group {
    Range range;            // of the flat order
    ValueId whole = kNone;  // holds it from `first` on
    int64_t first = 0;
    std::vector<Range> cuts;                                   // what one collective takes
    int ready = -1, needed = std::numeric_limits<int>::max();  // operations that write it last, first
    ValueId counter = kNone;                                   // of its TreePush
    Ids levels;
    int pending = -1;  // number of the latest collective on it in the program being written
  };

  Range units_range(const Range& units) const {
    const auto& all = out_.flat.units;
    return {all[static_cast<size_t>(units.begin)].begin, all[static_cast<size_t>(units.end) - 1].end};
  }

  void place_gradients() {
    const FlatLayout& flat = out_.flat;
    const Distribution& d = out_.distribution;
    const BucketSize bucket = bucket_size(flat, d.zero.reduce_bucket_size);
    if (zero_.whole_grads)
      out_.grads = floats("gradients", flat.numel, Account::gradients, shared());
    else
      out_.grads = floats("gradient shard", bytes_of(packed_) / kFloat, Account::gradients);

    for (const Range& units : unit_groups(flat, bucket, /*backward=*/true)) {
      Group group{.range = units_range(units)};
      group.cuts = cut(flat, group.range, bucket.most);
      if (zero_.whole_grads) {
        group.whole = out_.grads;
      } else {
        const std::string name = "gradients of " + graph_.units()[static_cast<size_t>(units.begin)];
        group.whole = floats(name, group.range.size(), Account::gradients, Home::exchange);
        group.first = group.range.begin;
      }
      for (size_t i = 0; i < flat.parameters.size(); ++i) {
        const Range& p = flat.parameters[i];
        if (p.begin < group.range.begin || p.begin >= group.range.end) continue;
        const ValueId grad = graph_.parameters()[i].grad;
        place(grad, group.whole, (p.begin - group.first) * kFloat);
        for (size_t k = 0; k < ops_.size(); ++k) {
          const Ids written = writes(Op{ops_[k]});
          if (std::find(written.begin(), written.end(), grad) == written.end()) continue;
          group.ready = std::max(group.ready, static_cast<int>(k));
          group.needed = std::min(group.needed, static_cast<int>(k));
        }
      }
      groups_.push_back(std::move(group));
    }
    if (d.dealing() == Dealing::contiguous && d.accumulation > 1) add_levels();
  }

  /// Partial sums of the micro-steps that one rank adds by itself: a binary counter, or just the sum so far.
  void add_levels() {
    const auto a = static_cast<unsigned>(out_.distribution.accumulation);
    const int count = out_.distribution.reproducible ? static_cast<int>(std::bit_width(a - 1)) : 1;
    for (int k = 0; k < count; ++k) {
      const ValueId level = floats("partial sum " + std::to_string(k), out_.flat.numel, Account::gradients);
      for (Group& g : groups_) g.levels.push_back(view(level, g.range.begin * kFloat, g.range.size()));
    }
    for (Group& g : groups_)
      g.counter =
          add({.name = "leaves", .shape = {1}, .dtype = DType::i32, .home = Home::resident, .account = Account::other});
  }

  /// Gradients of micro-batches are the leaves of a sum that is added in one canonical tree, over micro-steps and
  /// ranks.
  void reduce(Program& program, Group& group, bool last) {
    const Distribution& d = out_.distribution;
    const bool contiguous = d.dealing() == Dealing::contiguous;
    if (group.counter != kNone)
      emit(program, TreePush{view(group.whole, (group.range.begin - group.first) * kFloat, group.range.size()),
                             group.counter, group.levels, last});
    if (d.ranks == 1 || (contiguous && !last)) return;
    for (const Range& part : group.cuts) {
      const Run place{part, DType::f32, (part.begin - group.first) * kFloat};
      if (contiguous && zero_.whole_states) {
        communicate(program, AllReduce{view(group.whole, place.byte, part.size())});
        continue;
      }
      const ValueId shard = zero_.whole_grads ? group.whole : out_.grads;
      communicate(program, ReduceScatter{group.whole, shard, {place}, last});
      if (last && zero_.whole_states)
        communicate(program, AllGather{group.whole, group.whole, {place}, AllGather::What::grads});
    }
    group.pending = lane_ - 1;
  }

  // ---- programs

  void emit(Program& program, ComputeOp op, int after = -1) { program.push_back({std::move(op), time_, after}); }
  void communicate(Program& program, CommOp op) {
    program.push_back({std::move(op), time_, -1});
    ++lane_;
  }

  /// The first operation of a pass, forward or backward, that uses a unit's parameters.
  struct Use {
    int unit, first;
  };
  std::vector<Use> uses() const {
    std::vector<int> unit_of(out_.values.size(), -1);
    for (const Parameter& p : graph_.parameters())
      if (out_.values[static_cast<size_t>(p.value)].base != persistent_value_)
        unit_of[static_cast<size_t>(p.value)] = p.unit;
    std::vector<Use> found;
    std::set<int> open;
    for (size_t k = 0; k < ops_.size(); ++k) {
      if (std::holds_alternative<SoftmaxCrossEntropy>(ops_[k])) open.clear();  // the backward pass begins
      for (ValueId id : reads(Op{ops_[k]})) {
        const int unit = unit_of[static_cast<size_t>(id)];
        if (unit < 0) continue;
        if (open.insert(unit).second) found.push_back({unit, static_cast<int>(k)});
      }
    }
    return found;
  }

  void compute(Program& program, bool last) {
    lane_ = 0;
    for (Group& g : groups_) g.pending = -1;
    const std::vector<Use> gathers = zero_.whole_params ? std::vector<Use>{} : uses();
    std::vector<int> gathered(gathers.size(), -1);  // number of the collective
    size_t begun = 0;
    const auto gather_until = [&](size_t count) {
      for (; begun < std::min(count, gathers.size()); ++begun) {
        const auto unit = static_cast<size_t>(gathers[begun].unit);
        gathered[begun] = lane_;
        communicate(program, AllGather{unit_value_[unit], out_.params, unit_place_[unit], AllGather::What::params});
      }
    };
    for (size_t k = 0; k < ops_.size(); ++k) {
      time_ = static_cast<int>(k);
      int after = -1;
      for (size_t g = 0; g < gathers.size(); ++g) {
        if (gathers[g].first != time_) continue;
        // Its own, if nothing came before, and the next, a unit early; a unit that is used twice in a row must first be
        // done with.
        const bool again = g + 1 < gathers.size() && gathers[g + 1].unit == gathers[g].unit;
        gather_until(again ? g + 1 : g + 2);
        after = std::max(after, gathered[g]);
      }
      // Two groups' gradients at a time: the one that is written, and the one before it, which is on its way.
      for (size_t g = 2; g < groups_.size(); ++g)
        if (!zero_.whole_grads && groups_[g].needed == time_) after = std::max(after, groups_[g - 2].pending);
      emit(program, ops_[k], after);
      for (Group& g : groups_)
        if (g.ready == time_) reduce(program, g, last);
    }
  }

  // ---- update

  /// A run of elements that are updated alike, wherever its parts lie on this rank.
  struct Slice {
    Range range;
    UpdateRange rule;
    ValueId masters = kNone, copy = kNone;
  };

  std::vector<Slice> slices(const Range& range) {
    const Distribution& d = out_.distribution;
    std::vector<Slice> found;
    const auto& held = out_.states.front();
    const std::vector<Range> mine = zero_.whole_states ? std::vector<Range>{range} : out_.shards.owned(d.rank, range);
    const std::vector<Run>& compute_form = zero_.whole_params ? out_.flat.runs : shard_runs_;
    for (const UpdateRange& rule : rules_)
      for (const Range& own : mine)
        for (const Run& run : clip(clip(compute_form, own), rule.range))
          for (const Run& part : offload_parts(run)) {
            const int64_t n = part.range.size();
            Slice s{part.range, rule};
            s.masters = view(held.value, byte_of(held.held, part.range.begin), n);
            if (mixed_) s.copy = view(out_.params, part.byte, n, part.dtype);
            found.push_back(s);
          }
    return found;
  }
  /// What the host updates travels in parts, so that transfers and arithmetic overlap.
  std::vector<Run> offload_parts(const Run& run) const {
    constexpr int64_t kPart = int64_t{1} << 20;
    if (!out_.distribution.zero.offload_optimizer) return {run};
    std::vector<Run> parts;
    for (int64_t begin = run.range.begin; begin < run.range.end; begin += kPart)
      for (const Run& part : clip({run}, {begin, std::min(begin + kPart, run.range.end)})) parts.push_back(part);
    return parts;
  }

  /// Everything, bucket by bucket: act on a part, then gather it where ranks keep params whole but own a part each.
  template <class Act>
  void gather_params(Program& program, Act act) {
    const FlatLayout& flat = out_.flat;
    const Range all{0, flat.numel};
    if (!zero_.gather_after_update) {
      act(all);
      if (persistent_value_ != kNone)
        communicate(program, AllGather{persistent_value_, out_.params, persistent_, AllGather::What::params});
      return;
    }
    const BucketSize bucket = bucket_size(flat, out_.distribution.zero.allgather_bucket_size);
    for (const Range& units : unit_groups(flat, bucket, /*backward=*/false))
      for (const Range& part : cut(flat, units_range(units), bucket.most)) {
        act(part);
        communicate(program, AllGather{out_.params, out_.params, clip(flat.runs, part), AllGather::What::params});
      }
  }

  void update(const UpdateRule& rule) {
    const Distribution& d = out_.distribution;
    const auto& chunks = out_.flat.chunks;
    const auto count = static_cast<int64_t>(chunks.size());
    const ValueId sums = add({.name = "chunk square sums",
                              .shape = {count},
                              .dtype = DType::f64,
                              .home = zero_.whole_states ? Home::resident : shared(),
                              .account = Account::other});
    const int64_t row = sizeof(ScheduleRow) / sizeof(double);
    out_.schedule = add({.name = "schedule",
                         .shape = {kScheduleWindow * row},
                         .dtype = DType::f64,
                         .home = Home::resident,
                         .account = Account::other});
    out_.scalars = buffer("step scalars", sizeof(StepScalars), Account::other);

    lane_ = 0;
    std::vector<SquareSums::Chunk> mine;
    for (size_t i = 0; i < chunks.size(); ++i)
      for (const Range& own :
           zero_.whole_states ? std::vector<Range>{chunks[i]} : out_.shards.owned(d.rank, chunks[i])) {
        const int64_t at = grad_byte(own.begin) / kFloat;
        mine.push_back({{at, at + own.size()}, static_cast<int64_t>(i)});
      }
    emit(out_.update, SquareSums{out_.grads, sums, std::move(mine)});
    int after = -1;
    if (!zero_.whole_states) {
      after = lane_;
      communicate(out_.update, AllGather{sums, sums, {{{0, count}, DType::f64, 0}}, AllGather::What::chunk_sums});
    }
    emit(out_.update,
         StepControl{sums, out_.schedule, out_.scalars, rule.clip, d.micro_batches(), out_.loss_scale,
                     rule.loss_scale.value_or(LossScaleOptions{})},
         after);

    std::visit([&](const auto& optimizer) { update_parameters(optimizer, rule.groups); }, rule.optimizer);
  }

  template <class Optimizer>
  void update_parameters(const Optimizer& optimizer, const std::vector<optim::ParameterGroup>& groups) {
    if (!Optimizer::kShards && out_.distribution.effective_stage() > 0)
      fail(ExitCode::usage, Optimizer::kType, " does not share out its state: zero_optimization.stage must be 0");
    rules_ = update_ranges(graph_, out_.flat, optim::treatments(graph_, groups, optimizer.weight_decay));
    std::vector<std::optional<HeldState>> states;  // as the operation has them
    for (const std::string& name : optimizer.states()) {
      states.emplace_back();
      if (!name.empty()) out_.states.push_back(*(states.back() = state(name, Account::optimizer)));
    }
    gather_params(out_.update, [&](const Range& range) {
      Update update{.scalars = out_.scalars};
      std::vector<Blend::Slice> blended;
      for (const Slice& s : slices(range)) {
        const ValueId grads = view(out_.grads, grad_byte(s.range.begin), s.range.size());
        if (s.rule.statistic) {
          blended.push_back({s.masters, grads, s.copy, s.rule.momentum});
          continue;
        }
        const auto [weight_decay, lr_scale] = s.rule.treatment;
        UpdateSlice& slice = update.slices.emplace_back(UpdateSlice{
            .masters = s.masters, .grads = grads, .copy = s.copy, .weight_decay = weight_decay, .lr_scale = lr_scale});
        for (const auto& held : states)
          slice.states.push_back(held ? view(held->value, byte_of(held->held, s.range.begin), s.range.size()) : kNone);
      }
      if (!update.slices.empty()) emit(out_.update, optimizer.op(std::move(update)));
      if (!blended.empty())
        emit(out_.update, Blend{std::move(blended), out_.scalars, out_.distribution.micro_batches()});
    });
  }
  /// Layers compute with what the update gathers: each waits for the latest gather of its parameters.
  void wait_for_update(Program& program) const {
    const FlatLayout& flat = out_.flat;
    std::vector<int> gather_of(out_.values.size(), -1);  // by value
    int number = 0;
    for (const Step& step : out_.update) {
      const auto* comm = std::get_if<CommOp>(&step.op);
      if (comm == nullptr) continue;
      if (const auto* gather = std::get_if<AllGather>(comm); gather && gather->what == AllGather::What::params)
        for (size_t i = 0; i < flat.parameters.size(); ++i)
          if (!clip(gather->place, flat.parameters[i]).empty())
            gather_of[static_cast<size_t>(graph_.parameters()[i].value)] = number;
      ++number;
    }
    int waited = -1;
    for (Step& step : program) {
      int needs = -1;
      for (ValueId id : reads(step.op)) needs = std::max(needs, gather_of[static_cast<size_t>(id)]);
      if (needs > waited) step.after_update = waited = needs;
    }
  }
  int64_t grad_byte(int64_t element) const { return zero_.whole_grads ? element * kFloat : byte_of(packed_, element); }

  const Graph& graph_;
  const ZeroRow& zero_;
  bool mixed_ = false;  // layers compute in another type than f32
  std::vector<ComputeOp> ops_;
  std::vector<Run> whole_, packed_;  // all elements in f32; what this rank owns
  std::vector<Run> shard_runs_;      // stage 3: what this rank owns in the form that layers compute with
  std::vector<std::vector<Run>> unit_place_;
  std::vector<ValueId> unit_value_;
  std::vector<Run> persistent_;
  ValueId persistent_value_ = kNone;
  std::vector<Group> groups_;
  std::vector<UpdateRange> rules_;
  int time_ = 0, lane_ = 0;
  Lowered out_;
};

}  // namespace

Lowered lower_training(const Graph& graph, const UpdateRule& rule, const Distribution& distribution) {
  return Lowering(graph, distribution).training(rule);
}

Lowered lower_evaluation(const Graph& graph, const Distribution& distribution) {
  // What training keeps whole beside its shards is another buffer; evaluation gathers everything from the shards.
  Distribution d = distribution;
  d.zero.persistence_threshold = 0;
  return Lowering(graph, d).evaluation();
}

}  // namespace ct
