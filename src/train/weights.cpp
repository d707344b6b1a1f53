#include "train/weights.h"

#include "base/error.h"
#include "checkpoint/weights_hash.h"

namespace ct {
namespace {

std::span<float> part(std::span<float> buffer, const Range& r) {
  return buffer.subspan(static_cast<size_t>(r.begin), static_cast<size_t>(r.size()));
}
std::span<const float> part(std::span<const float> buffer, const Range& r) {
  return buffer.subspan(static_cast<size_t>(r.begin), static_cast<size_t>(r.size()));
}

}  // namespace

TorchTensors::TorchTensors(const Graph& graph, const std::string& suffix) {
  for (const Parameter& p : graph.parameters())
    copies_.push_back({p.name + suffix, p.shape, std::vector<float>(static_cast<size_t>(p.layout.numel()))});
}

TorchTensors::TorchTensors(const Graph& graph, const FlatLayout& flat, std::span<const float> buffer,
                           const std::string& suffix)
    : TorchTensors(graph, suffix) {
  for (size_t i = 0; i < copies_.size(); ++i)
    graph.parameters()[i].layout.to_torch(part(buffer, flat.parameters[i]), copies_[i].values);
}

std::vector<TensorView> TorchTensors::views() const {
  std::vector<TensorView> views;
  for (const Copy& c : copies_) views.push_back({c.name, StoredType::f32, c.shape, std::as_bytes(std::span(c.values))});
  return views;
}

std::vector<NamedTensor> TorchTensors::named() {
  std::vector<NamedTensor> tensors;
  for (Copy& c : copies_)
    tensors.push_back({c.name, StoredType::f32, c.shape, std::as_writable_bytes(std::span(c.values))});
  return tensors;
}

void TorchTensors::store(const Graph& graph, const FlatLayout& flat, std::span<float> buffer) const {
  for (size_t i = 0; i < copies_.size(); ++i)
    graph.parameters()[i].layout.from_torch(copies_[i].values, part(buffer, flat.parameters[i]));
}

std::string weights_hash(const Programs& programs, const Engine& engine) {
  return weights_sha256(TorchTensors(programs.graph, programs.train.flat, engine.state().front().values).views());
}

void load_weights(const SafetensorsFile& file, const Graph& graph, const FlatLayout& flat, std::span<float> params) {
  TorchTensors tensors(graph);
  restore(file, tensors.named());
  tensors.store(graph, flat, params);
}

Path weights_file(const Path& path) {
  if (!std::filesystem::is_directory(path)) return path;
  for (const char* name : {"best.bin", "weights.safetensors"})
    if (std::filesystem::exists(path / name)) return path / name;
  fail(ExitCode::usage, in_quotes(path.native()), " is a folder without weights; give a file such as RUN/best.bin");
}

Metadata to_metadata(const WeightsInfo& info) {
  return {{"format", "pt"},
          {"cifar_train.model", Json{{"name", info.model}}.dump()},
          {"cifar_train.normalize", Json{{"mean", info.mean}, {"std", info.std}}.dump()},
          {"cifar_train.class_names", Json(info.class_names).dump()},
          {"cifar_train.dataset", info.dataset},
          {"cifar_train.data_path", info.data_path},
          {"cifar_train.step", std::to_string(info.step)},
          {"cifar_train.epoch", std::to_string(info.epoch)},
          {"cifar_train.seed", std::to_string(info.seed)},
          {"cifar_train.validation", std::to_string(info.validation)},
          {"cifar_train.on_corrupt", info.on_corrupt}};
}

WeightsInfo info_of(const SafetensorsFile& file) {
  const auto text = [&](const std::string& key) {
    const auto at = file.metadata().find("cifar_train." + key);
    if (at == file.metadata().end())
      fail(ExitCode::checkpoint, in_quotes(file.path().native()), " does not say its ", key,
           ": it was not written by cifar-train; start a run from it with train --init");
    return at->second;
  };
  WeightsInfo info;
  try {
    info.model = Json::parse(text("model")).at("name");
    const Json normalize = Json::parse(text("normalize"));
    info.mean = normalize.at("mean");
    info.std = normalize.at("std");
    info.class_names = Json::parse(text("class_names")).get<std::vector<std::string>>();
    info.dataset = text("dataset");
    info.data_path = text("data_path");
    info.step = std::stoll(text("step"));
    info.epoch = std::stoll(text("epoch"));
    info.seed = std::stoll(text("seed"));
    info.validation = std::stoll(text("validation"));
    info.on_corrupt = text("on_corrupt");
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail(ExitCode::checkpoint, in_quotes(file.path().native()), " has damaged metadata; use another checkpoint");
  }
  return info;
}

}  // namespace ct
