#include "train/weights.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/half.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/store.h"
#include "checkpoint/tensor_differences.h"
#include "checkpoint/weights_hash.h"
#include "device/cpu/kernels/plain.h"
#include "train/config/batch.h"
#include "train/file_weights.h"

namespace ct {
namespace {

std::vector<LogicalTensor> weights_in(const SafetensorsFile& file, WeightSet set, const Graph& graph) {
  auto tensors = tensors_of_set(file, set);
  require_tensors(tensors, wanted_weights(tensors, graph, file.path()), file.path(), is_counter);
  return tensors;
}

/// Is it a mean or sum of squares, of which an update takes the root? By its name in a file.
bool is_of_squares(std::string_view name) {
  constexpr std::string_view kEnds[] = {"running_var", "running_var.ema", ".exp_avg_sq", ".square_avg", ".sum"};
  return std::ranges::any_of(kEnds, [=](std::string_view end) { return name.ends_with(end); });
}

/// Of elements from `row` on.
void require_possible(const LogicalTensor& tensor, int64_t row, std::span<const float> elements, bool of_squares) {
  const auto bad =
      std::ranges::find_if_not(elements, [=](float x) { return std::isfinite(x) && !(of_squares && x < 0); });
  if (bad == elements.end()) return;
  refuse_element(tensor, row, static_cast<size_t>(bad - elements.begin()),
                 std::isfinite(*bad) ? str("negative (", *bad, "), as no sum of squares is,")
                                     : str("not finite (", *bad, "), against its manifest,"));
}

}  // namespace

void require_resumable(const Checkpoint& checkpoint) {
  require_state(checkpoint);
  std::vector<LogicalTensor> tensors = logical_tensors(std::span(&checkpoint.weights, 1));
  std::ranges::move(checkpoint.moments(), std::back_inserter(tensors));
  const std::vector<std::string>& not_finite = checkpoint.manifest.not_finite;
  for (const LogicalTensor& tensor : tensors) {
    if (is_counter(tensor.name) || std::ranges::count(not_finite, stored_name(tensor)) != 0) continue;
    each_bucket(tensor, 0, tensor.shape.empty() ? 1 : tensor.shape.front(),
                [&](int64_t row, std::span<const float> elements) {
                  require_possible(tensor, row, elements, is_of_squares(tensor.name));
                });
  }
}

TensorSpec state_spec(const Parameter& p, StateKind kind, const std::string& name) {
  return {kind == StateKind::weights ? p.name : p.name + "." + name, StoredType::f32, p.shape};
}

bool has_ema(const SafetensorsFile& file) {
  return std::ranges::any_of(file.tensors(), [&](const StoredTensor& t) { return is_average(file, t.name); });
}

WeightSet evaluated_set(const SafetensorsFile& file) {
  const auto at = file.metadata().find("cifar_train.evaluated");
  return at != file.metadata().end() && at->second == "ema" && has_ema(file) ? WeightSet::ema : WeightSet::weights;
}

std::string name_of_parameter(const Parameter& parameter) { return parameter.name; }

void load_rows(const std::vector<LogicalTensor>& tensors, const Graph& graph, const FlatLayout& flat,
               const StateBuffer& state, const std::function<std::string(const Parameter&)>& name,
               const std::vector<std::string>* not_finite) {
  for (const ParameterRows& held : rows_in(graph, flat, state.ranges())) {
    const Parameter& p = graph.parameters()[held.parameter];
    const LogicalTensor* tensor = find(tensors, name(p));
    if (tensor == nullptr) continue;
    const bool must_be_finite = not_finite != nullptr && std::ranges::count(*not_finite, stored_name(*tensor)) == 0;
    each_bucket(*tensor, held.begin, held.end, [&](int64_t first, std::span<const float> torch) {
      if (must_be_finite) require_possible(*tensor, first, torch, is_of_squares(tensor->name));
      const auto n = static_cast<int64_t>(torch.size()) / (p.layout.numel() / p.layout.dims[0]);
      const Layout layout = p.layout.rows(n);
      const int64_t begin = held.storage.begin + (first - held.begin) * layout.strides[0];
      layout.from_torch(torch, state({begin, begin + layout.stored}));
    });
  }
}

void write_weights(const Graph& graph, const FlatLayout& flat, const StateBuffer& weights,
                   const TorchValues& torch_values) {
  std::vector<ParameterRows> held = rows_in(graph, flat, weights.ranges());
  std::ranges::stable_sort(held, {}, &ParameterRows::parameter);  // each parameter's values are asked for once
  std::span<const float> values;
  for (size_t i = 0; i < held.size(); ++i) {
    const auto& [parameter, begin, end, storage] = held[i];
    const Layout& layout = graph.parameters()[parameter].layout;
    if (i == 0 || held[i - 1].parameter != parameter) values = torch_values(parameter);
    if (values.empty()) continue;
    const auto row = static_cast<size_t>(layout.numel() / layout.dims[0]);
    layout.rows(end - begin)
        .from_torch(values.subspan(static_cast<size_t>(begin) * row, static_cast<size_t>(end - begin) * row),
                    weights(storage));
  }
}

std::vector<std::string> counter_names(const Graph& graph) {
  constexpr std::string_view kMean = "running_mean";
  std::vector<std::string> names;
  for (const Parameter& p : graph.parameters())
    if (p.statistic && p.name.ends_with(kMean))
      names.push_back(p.name.substr(0, p.name.size() - kMean.size()) + "num_batches_tracked");
  return names;
}

void load_weights(const SafetensorsFile& file, const Graph& graph, const FlatLayout& flat, const StateBuffer& weights,
                  const std::vector<std::string>* not_finite) {
  const WeightSet set = weights.kind == StateKind::ema ? WeightSet::ema : WeightSet::weights;
  load_rows(weights_in(file, set, graph), graph, flat, weights, name_of_parameter, not_finite);
}

std::string head_of(const Graph& graph) {
  const std::string& last = graph.parameters().back().name;
  return last.substr(0, last.rfind('.'));
}

void load_compute_weights(const SafetensorsFile& file, WeightSet set, const Graph& graph, const FlatLayout& flat,
                          std::byte* params) {
  const auto tensors = weights_in(file, set, graph);
  std::vector<float> storage;
  for (size_t i = 0; i < flat.parameters.size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    const Run run = intersection(flat.runs, flat.parameters[i]).at(0);
    each_bucket(*find(tensors, p.name), 0, p.layout.dims[0], [&](int64_t first, std::span<const float> torch) {
      const auto n = static_cast<int64_t>(torch.size()) / (p.layout.numel() / p.layout.dims[0]);
      const Layout layout = p.layout.rows(n);
      storage.resize(static_cast<size_t>(layout.stored));
      layout.from_torch(torch, storage);
      const auto at = static_cast<size_t>(first * layout.strides[0]);
      if (run.dtype == DType::bf16)
        cpu::convert(storage.data(), reinterpret_cast<uint16_t*>(params + run.byte) + at, layout.stored);
      else if (run.dtype == DType::f16)
        std::ranges::transform(storage, reinterpret_cast<uint16_t*>(params + run.byte) + at, to_f16);
      else
        std::ranges::copy(storage, reinterpret_cast<float*>(params + run.byte) + at);
    });
  }
}

std::string conversions(const SafetensorsFile& file) {
  std::map<StoredType, int> counts;
  for (const StoredTensor& t : file.tensors())
    if (t.dtype != StoredType::f32 && is_float(t.dtype)) ++counts[t.dtype];
  return joined(counts, ", ", [](const auto& of) {
    return str(counted(of.second, "tensor"), " converted from ", lower_case(std::string(name_of(of.first))), " to f32");
  });
}

std::vector<std::string> not_finite(const SafetensorsFile& file, WeightSet set) {
  std::vector<std::string> names = not_finite(logical_tensors(std::span(&file, 1)));
  std::erase_if(names, [&](const std::string& name) { return is_average(file, name) != (set == WeightSet::ema); });
  return names;
}

namespace {
std::string hash_of(const Path& path, std::string (*hash)(const SafetensorsFile&)) {
  const SafetensorsFile file(path, SafetensorsFile::Check::header);
  std::string found = hash(file);
  file.require_unchanged();
  return found;
}
}  // namespace

std::string weights_sha256_of(const Path& path) { return hash_of(path, weights_sha256); }
std::string ema_sha256_of(const Path& path) { return hash_of(path, ema_sha256); }

void require_weights(const SafetensorsFile& file) {
  if (is_optimizer_shard(file))
    fail(ExitCode::checkpoint, in_quotes(file.path().native()),
         " holds the optimizer state of a checkpoint, not weights: give the checkpoint's folder");
}

Path weights_file(const Path& path) {
  if (!is_there(path, ExitCode::checkpoint))
    fail(ExitCode::usage, in_quotes(path.native()), ": there is no such file: check the path");
  if (!is_folder(path, ExitCode::checkpoint)) return path;
  const Path folder = path.has_filename() ? path : path.parent_path();  // "a/b/" is "a/b"
  if (const auto step = step_of(folder.filename().string())) {
    FileSystem files;
    Store(files, folder.parent_path(), {}).load(*step);  // weights of another step would pass for this one's
  }
  for (const char* name : {"best.bin", "weights.safetensors"})
    if (is_there(path / name, ExitCode::checkpoint)) return path / name;
  fail(ExitCode::usage, in_quotes(path.native()),
       " has neither best.bin, which a run's first evaluation writes, nor weights.safetensors; give a file, or the "
       "folder of a checkpoint such as RUN/ckpt/step-00000100");
}

namespace {

/// Keys of schedules, which no model has.
template <class Target>
constexpr bool kCountsSteps = std::is_same_v<Target, StepCount*> || std::is_same_v<Target, std::optional<StepCount>*> ||
                              std::is_same_v<Target, std::vector<StepCount>*>;

/// {"name": "resnet18", "stem": "cifar", ...}: with all keys that the model takes.
Json to_json(Model model) {
  Json json = {{"name", model.name}};
  for (const ConfigKey& key : model.keys())
    std::visit(
        [&]<class Target>(const Target& target) {
          if constexpr (kCountsSteps<Target>)
            fail(ExitCode::bug, "a model with a duration");
          else if constexpr (std::is_same_v<Target, Choice>)
            json[key.name] = target.word();
          else if constexpr (requires { target->has_value(); })
            json[key.name] = target->has_value() ? Json(**target) : Json();
          else
            json[key.name] = *target;
        },
        key.target);
  return json;
}

void read_value(const Json& json, const ConfigKey& key, const Choice& target) {
  const auto word = json.get<std::string>();
  if (std::ranges::find(target.words(), word) == target.words().end()) throw std::invalid_argument(key.name);
  target.choose(word);
}
void require_range(const ConfigKey& key, double value) {
  const ConfigRule& rule = key.rule;
  const bool low = rule.above_min ? value <= rule.min : value < rule.min;
  const bool high = rule.below_max ? value >= rule.max : value > rule.max;
  if (low || high || std::isnan(value)) throw std::out_of_range(key.name);
}
void read_value(const Json& json, const ConfigKey& key, int64_t* target) {
  if (!json.is_number_integer()) throw std::invalid_argument(key.name);
  *target = json.get<int64_t>();
  require_range(key, static_cast<double>(*target));
}
void read_value(const Json& json, const ConfigKey& key, double* target) {
  *target = json.get<double>();
  require_range(key, *target);
}
template <class T>
void read_value(const Json& json, const ConfigKey&, T* target) {
  *target = json.get<T>();
}
template <class T>
void read_value(const Json& json, const ConfigKey& key, std::optional<T>* target) {
  target->reset();
  if (!json.is_null()) read_value(json, key, &target->emplace());
}

/// Throws what is no Error where that is not what to_json() makes.
Model model_from(const Json& json) {
  Model model{.name = json.at("name").get<std::string>()};
  if (std::ranges::count(model_names(), model.name) == 0) throw std::invalid_argument("name");
  for (const ConfigKey& key : model.keys())
    if (const auto value = json.find(key.name); value != json.end())
      std::visit(
          [&]<class Target>(const Target& target) {
            if constexpr (!kCountsSteps<Target>) read_value(*value, key, target);
          },
          key.target);
  if (const auto fault = model.fault()) throw std::invalid_argument(fault->text);
  return model;
}

}  // namespace

std::string other_model_keys(const SafetensorsFile& file, Model model) {
  const auto said = file.metadata().find("cifar_train.model");
  if (said == file.metadata().end()) return {};
  const Json there = Json::parse(said->second, nullptr, /*allow_exceptions=*/false);
  if (!there.is_object() || there.value("name", Json()) != model.name) return {};
  const Json here = to_json(model);
  std::string text;
  for (const ConfigKey& key : model.keys()) {
    const auto value = there.find(key.name);
    if (value == there.end() || *value == here[key.name] || std::holds_alternative<double*>(key.target)) continue;
    text += str(text.empty() ? "" : ", ", "model.", key.name, " ", printable(value->dump()), " (here ",
                here[key.name].dump(), ")");
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> model_key_texts(const Model& model) {
  std::vector<std::pair<std::string, std::string>> texts;
  const Json json = to_json(model);
  for (const auto& [key, value] : json.items())
    if (key != "name" && !value.is_null())
      texts.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  return texts;
}

namespace {

constexpr std::string_view kMetadataPrefix = "cifar_train.";

enum class Presence : bool { always, unless_default };
/// The entries of a file's metadata that are one number, word or text each, for both directions.
template <class F>
void each_entry(F f) {
  using Info = WeightsInfo;
  using enum Presence;
  f("dataset", &Info::dataset, always);
  f("data_path", &Info::data_path, always);
  f("data_train", &Info::data_train, unless_default);
  f("data_val", &Info::data_val, unless_default);
  f("data_test", &Info::data_test, unless_default);
  f("step", &Info::step, always);
  f("epoch", &Info::epoch, always);
  f("seed", &Info::seed, always);
  f("validation", &Info::held_out_before, unless_default);
  f("val_from", &Info::val_from, unless_default);
  f("test_from", &Info::test_from, unless_default);
  f("limit", &Info::limit, unless_default);
  f("divided_crc", &Info::divided_crc, unless_default);
  f("on_corrupt", &Info::on_corrupt, always);
  f("labels", &Info::labels, unless_default);
  f("test_images", &Info::test_images, always);
  f("compute", &Info::compute, always);
  f("eval_batch_size", &Info::eval_batch, always);
  f("eval_views", &Info::eval_views, unless_default);
  f("winograd", &Info::winograd, unless_default);
  f("tf32", &Info::tf32, unless_default);
  f("plans", &Info::plans, unless_default);
}

template <class T>
std::string entry_text(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return std::string(word_of(value));
  else if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else
    return str(value);
}
template <class T>
void read_entry(const std::string& text, T& value) {
  if constexpr (std::is_enum_v<T>)
    value = of_word(text, value);
  else if constexpr (std::is_same_v<T, bool>)
    value = text == "true";
  else if constexpr (std::is_same_v<T, int64_t>)
    value = std::stoll(text);
  else
    value = text;
}

}  // namespace

Metadata to_metadata(const WeightsInfo& info) {
  Metadata metadata = {{"format", "pt"}};
  const auto put = [&](std::string_view key, std::string text) {
    metadata[str(kMetadataPrefix, key)] = std::move(text);
  };
  put("model", to_json(info.model).dump());
  put("normalize", Json{{"mean", info.mean}, {"std", info.std}}.dump());
  put("class_names", Json(info.class_names).dump());
  if (info.sample.height > 0) put("sample", Json{info.sample.channels, info.sample.height, info.sample.width}.dump());
  if (info.size > 0) put("pictures", Json{{"size", info.size}, {"resize", info.resize}}.dump());
  if (info.evaluated == WeightSet::ema) put("evaluated", "ema");
  each_entry([&](std::string_view key, auto member, Presence presence) {
    if (presence == Presence::always || info.*member != WeightsInfo().*member) put(key, entry_text(info.*member));
  });
  return metadata;
}

WeightsInfo info_of(const SafetensorsFile& file) {
  require_weights(file);
  const auto has = [&](std::string_view key) { return file.metadata().contains(str(kMetadataPrefix, key)); };
  const auto text = [&](std::string_view key) {
    if (!has(key))
      fail(ExitCode::checkpoint, in_quotes(file.path().native()), " does not say its ", key,
           ": it was not written by cifar-train; start a run from it with train --init");
    return file.metadata().at(str(kMetadataPrefix, key));
  };
  WeightsInfo info;
  try {
    info.model = model_from(Json::parse(text("model")));
    const Json normalize = Json::parse(text("normalize"));
    info.mean = normalize.at("mean").get<std::vector<double>>();
    info.std = normalize.at("std").get<std::vector<double>>();
    const auto finite = [](double value) { return std::isfinite(value); };
    const auto divides = [](double value) { return std::isfinite(value) && value > 0; };
    constexpr size_t kMostChannels = 3;
    if (info.mean.empty() || info.mean.size() > kMostChannels || info.mean.size() != info.std.size() ||
        !std::ranges::all_of(info.mean, finite) || !std::ranges::all_of(info.std, divides))
      throw std::out_of_range("normalize");
    info.class_names = Json::parse(text("class_names")).get<std::vector<std::string>>();
    constexpr int64_t kMost = 4096;
    if (has("sample")) {
      const Json sample = Json::parse(text("sample"));
      if (!std::ranges::all_of(sample, &Json::is_number_integer)) throw std::invalid_argument("sample");
      const auto sides = sample.get<std::array<int64_t, 3>>();
      for (const int64_t side : sides)
        if (side < 1 || side > kMost) throw std::out_of_range("sample");
      info.sample = {sides[0], sides[1], sides[2]};
    }
    if (has("pictures")) {
      const Json pictures = Json::parse(text("pictures"));
      const auto [size, resize] = std::pair(pictures.at("size"), pictures.at("resize"));
      if (!size.is_number_integer() || !resize.is_number_integer()) throw std::invalid_argument("pictures");
      info.size = size.get<int64_t>();
      info.resize = resize.get<int64_t>();
      if (info.size < 1 || info.resize < info.size || info.resize > kMost) throw std::out_of_range("pictures");
    }
    each_entry([&](std::string_view key, auto member, Presence presence) {
      if (presence == Presence::always || has(key)) read_entry(text(key), info.*member);
    });
    if (info.eval_batch < 1 || info.eval_batch > kLargestBatch) throw std::out_of_range("eval_batch_size");
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail(ExitCode::checkpoint, in_quotes(file.path().native()), " has damaged metadata; use another checkpoint");
  }
  return info;
}

}  // namespace ct
