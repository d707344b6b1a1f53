#include "train/run/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/tensor_differences.h"
#include "comm/all_ranks.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

/// What a rank owns of every parameter: one run of rows, since every unit is assigned in one piece a rank.
std::vector<ParameterRows> owned_rows(const Graph& graph, Engine& engine) {
  std::vector<ParameterRows> rows = rows_in(graph, engine.lowered().flat, engine.owned());
  std::ranges::sort(rows, {}, &ParameterRows::parameter);
  for (size_t i = 1; i < rows.size(); ++i)
    check(rows[i].parameter != rows[i - 1].parameter, "a rank owns two runs of rows of ",
          graph.parameters()[rows[i].parameter].name);
  return rows;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const Args& args) : args_(args), owned_(owned_rows(args.graph, args.engine)) {
  RunIdentity identity;
  if (args.folder != nullptr) identity = args.folder->identity();
  identity.run = from_rank_0(args.comm, identity.run);
  identity.model = from_rank_0(args.comm, identity.model);
  run_on_all_ranks(args.comm, [&] { files_.hold(args.out); });
  store_ = std::make_unique<Store>(files_, args.out / kCheckpointFolder, identity);
  places_.resize(owned_.size());
  for (const bool frozen : {false, true}) {
    for (size_t i = 0; i < owned_.size(); ++i) {
      if (args.graph.parameters()[owned_[i].parameter].frozen != frozen) continue;
      places_[i] = owned_elements_;
      owned_elements_ += static_cast<size_t>(owned_[i].storage.size());
    }
    if (!frozen) changing_elements_ = owned_elements_;
  }
}

CheckpointWriter::~CheckpointWriter() = default;

size_t CheckpointWriter::snapshot_place(size_t state, size_t owned) const {
  return (state == 0 ? 0 : owned_elements_ + (state - 1) * changing_elements_) + places_[owned];
}

/// Every state's owned rows, one after the other as they lie in memory.
void CheckpointWriter::take_snapshot() {
  const auto states = args_.engine.state();
  snapshot_.resize(owned_elements_ + (states.size() - 1) * changing_elements_);
  for (size_t s = 0; s < states.size(); ++s)
    for (size_t i = 0; i < owned_.size(); ++i) {
      const Parameter& parameter = args_.graph.parameters()[owned_[i].parameter];
      if (!is_in(states[s].scope, parameter) || (s > 0 && parameter.frozen)) continue;
      const std::span<const float> now = states[s](owned_[i].storage);
      std::copy(now.begin(), now.end(), snapshot_.data() + snapshot_place(s, i));
    }
}

CheckpointWriter::Contents CheckpointWriter::contents_of(bool (*kinds)(StateKind), Source source) const {
  struct Tensor {
    size_t state, owned;
  };
  Contents contents;
  std::vector<Tensor> owned;  // by tensor of the file; the rest of them is other ranks'
  const auto states = args_.engine.state();
  for (size_t s = 0; s < states.size(); ++s) {
    if (!kinds(states[s].kind)) continue;
    size_t next = 0;  // of owned_
    for (size_t p = 0; p < args_.graph.parameters().size(); ++p) {
      const Parameter& parameter = args_.graph.parameters()[p];
      const bool mine = next < owned_.size() && owned_[next].parameter == p;
      if (mine) ++next;
      if (!is_in(states[s].scope, parameter)) continue;
      contents.specs.push_back(state_spec(parameter, states[s].kind, states[s].name));
      owned.push_back({parameter.frozen ? 0 : s, next - 1});  // the average of what is frozen is the weights
      if (mine) contents.own.push_back({contents.specs.size() - 1, owned_[next - 1].begin, owned_[next - 1].end});
    }
  }
  contents.read = [this, source, states, owned](const Rows& rows, std::span<std::byte> out) {
    const auto [s, i] = owned[rows.tensor];
    const ParameterRows& mine = owned_[i];
    const Layout layout = args_.graph.parameters()[mine.parameter].layout.rows(rows.end - rows.begin);
    const int64_t offset = (rows.begin - mine.begin) * layout.strides[0];
    const float* storage =
        source == Source::snapshot ? snapshot_.data() + snapshot_place(s, i) : states[s](mine.storage).data();
    layout.to_torch({storage + offset, static_cast<size_t>(layout.stored)},
                    {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
  };
  return contents;
}

/// Masters, their average if there is one, and PyTorch's counters of batches: how often the running statistics were
/// updated, which rank 0 writes.
CheckpointWriter::Contents CheckpointWriter::weights(Source source) const {
  Contents contents = contents_of(has_statistics, source);
  const size_t first = contents.specs.size();
  for (const std::string& name : counter_names(args_.graph)) {
    if (args_.comm.rank() == 0) contents.own.push_back({contents.specs.size(), 0, 1});
    contents.specs.push_back({name, StoredType::i64, {}});
  }
  contents.read = [first, updates = args_.engine.scalars().applied, read = std::move(contents.read)](
                      const Rows& rows, std::span<std::byte> out) {
    if (rows.tensor < first) return read(rows, out);
    std::memcpy(out.data(), &updates, sizeof updates);
  };
  return contents;
}

void CheckpointWriter::begin(const RunState& state, const Provenance& provenance, const Metadata& metadata) {
  check(!pending(), "a save begins while another is pending");
  begun_ = Clock::now();
  step_ = state.step;
  RunFolder* folder = args_.folder;
  run_on_all_ranks(args_.comm, [&] {
    if (args_.asynchronous) take_snapshot();
    if (folder != nullptr && state.best_step >= 0) folder->keep_best(state.step);
  });
  const Source source = args_.asynchronous ? Source::snapshot : Source::engine;
  Contents masters = weights(source);
  Contents moments = contents_of([](StateKind kind) { return kind == StateKind::moment; }, source);
  SaveContents contents{.step = state.step,
                        .weights = std::move(masters.specs),
                        .moments = std::move(moments.specs),
                        .own_weights = std::move(masters.own),
                        .own_moments = std::move(moments.own),
                        .read_weights = std::move(masters.read),
                        .read_moments = std::move(moments.read),
                        .metadata = metadata,
                        .state = to_json(state, provenance),
                        .background = args_.asynchronous};
  warning_.clear();
  if (folder != nullptr)
    contents.after_commit = [this, folder, step = state.step] {
      try {
        folder->make_room(step);
        warning_ = folder->news_of_not_finite(step);
      } catch (const Error& e) {  // the checkpoint is good all the same
        warning_ = e.what();
      }
    };
  save_ = std::make_unique<CheckpointSave>(args_.comm, *store_, std::move(contents));
}

std::optional<CheckpointWriter::Saved> CheckpointWriter::poll() {
  check(pending(), "no save is pending");
  try {
    if (!save_->poll()) return std::nullopt;
  } catch (...) {
    save_.reset();
    throw;
  }
  return over();
}

CheckpointWriter::Saved CheckpointWriter::finish() {
  check(pending(), "no save is pending");
  try {
    save_->finish();
  } catch (...) {
    save_.reset();
    throw;
  }
  return over();
}

CheckpointWriter::Saved CheckpointWriter::over() {
  save_.reset();
  return {step_, (args_.out / kCheckpointFolder / step_name(step_)).string(),
          std::chrono::duration<double>(Clock::now() - begun_).count(), warning_};
}

void CheckpointWriter::write_weights(const std::string& name, const Metadata& metadata) {
  const Contents masters = weights(Source::engine);
  write_together(args_.comm, files_, args_.out / name, masters.specs, metadata, masters.own, masters.read);
}

RunState restore_checkpoint(const Path& path, const std::string& model, const Graph& graph, Engine& engine,
                            Moments restores) {
  const Checkpoint checkpoint = load_checkpoint(path, {"", model}, SafetensorsFile::Check::header);
  const FlatLayout& flat = engine.lowered().flat;
  const auto is_moment = [](const StateBuffer& state) { return state.kind == StateKind::moment; };
  const auto states = engine.state();
  const std::vector<std::string>& not_finite = checkpoint.manifest.not_finite;
  for (const StateBuffer& state : states)
    if (!is_moment(state)) load_weights(checkpoint.weights, graph, flat, state, &not_finite);
  if (restores == Moments::begin_anew) return run_state_from(checkpoint.state, checkpoint.state_path());
  const auto moments = checkpoint.moments();
  std::vector<TensorSpec> specs;
  for (const StateBuffer& state : states)
    for (const Parameter& p : graph.parameters())
      if (is_moment(state) && is_in(state.scope, p)) specs.push_back(state_spec(p, state.kind, state.name));
  if (!specs.empty()) require_tensors(moments, specs, path);
  for (const StateBuffer& state : states)
    if (is_moment(state))
      load_rows(
          moments, graph, flat, state, [&](const Parameter& p) { return state_spec(p, state.kind, state.name).name; },
          &not_finite);
  return run_state_from(checkpoint.state, checkpoint.state_path());
}

}  // namespace ct
