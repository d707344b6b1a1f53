#include "train/checkpoint.h"

#include "base/error.h"

namespace ct {

Json to_json(const RunState& state, const Provenance& p) {
  Json json = to_json(state);
  json["config"] = p.config;
  json["ranks"] = p.ranks;
  json["dataset"] = p.dataset;
  json["data_crc32c"] = p.data_crc;
  json["device"] = p.device;
  return json;
}

Provenance provenance_from(const Json& state) {
  try {
    return {state.at("config"), state.at("ranks"), state.at("dataset"), state.at("data_crc32c"), state.at("device")};
  } catch (const Json::exception&) {
    fail(ExitCode::checkpoint,
         "state.json does not say what the run was; the checkpoint is damaged, use an earlier one");
  }
}

void save_checkpoint(Store& store, const RunState& state, const Provenance& provenance, const Metadata& metadata,
                     const Programs& programs, const Engine& engine) {
  const auto buffers = engine.state();
  std::vector<TorchTensors> moments;
  std::vector<TensorView> optimizer;
  for (size_t i = 1; i < buffers.size(); ++i) {
    moments.emplace_back(programs.graph, programs.train.flat, buffers[i].values, "." + buffers[i].name);
    const auto views = moments.back().views();
    optimizer.insert(optimizer.end(), views.begin(), views.end());
  }
  const TorchTensors weights(programs.graph, programs.train.flat, buffers.front().values);
  store.save(state.step, weights.views(), metadata, optimizer, to_json(state, provenance));
}

RunState restore_checkpoint(const Path& path, const std::string& model, const Programs& programs,
                            const Engine& engine) {
  const Checkpoint checkpoint = load_checkpoint(path, {"", model});
  const auto buffers = engine.state();
  const Graph& graph = programs.graph;
  const FlatLayout& flat = programs.train.flat;
  TorchTensors weights(graph);
  restore(checkpoint.weights, weights.named());
  weights.store(graph, flat, buffers.front().values);

  std::vector<TorchTensors> moments;
  std::vector<NamedTensor> wanted;
  for (size_t i = 1; i < buffers.size(); ++i) {
    moments.emplace_back(graph, "." + buffers[i].name);
    const auto named = moments.back().named();
    wanted.insert(wanted.end(), named.begin(), named.end());
  }
  if (!wanted.empty()) {
    if (checkpoint.optimizer.size() != 1)
      fail(ExitCode::checkpoint, in_quotes(path.native()), " has ", checkpoint.optimizer.size(),
           " optimizer files where this version reads one; use the version that wrote it");
    restore(checkpoint.optimizer.front(), wanted);
    for (size_t i = 1; i < buffers.size(); ++i) moments[i - 1].store(graph, flat, buffers[i].values);
  }
  return run_state_from(checkpoint.state);
}

}  // namespace ct
