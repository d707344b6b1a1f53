#include "cli/own_pictures.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "comm/host/threads.h"
#include "data/locate.h"
#include "fetch/published.h"
#include "train/setup.h"
#include "train/weights.h"

namespace ct {
namespace {

constexpr const char* kOrigin = "chosen for these pictures";

void add(std::vector<ConfigOverride>& all, const char* key, const std::string& value) {
  all.push_back({key, value, kOrigin});
}

std::string list_text(const std::vector<double>& numbers) {
  return "[" + joined(numbers, ", ", [](double x) { return str(x); }) + "]";
}

/// What the file says of its training; none: there is no file, or another program wrote it.
std::optional<WeightsInfo> info_of_pretrained(const std::string& pretrained) {
  if (pretrained.empty()) return std::nullopt;
  const SafetensorsFile file(weights_file(pretrained), SafetensorsFile::Check::header);
  if (!file.metadata().contains("cifar_train.sample")) return std::nullopt;
  return info_of(file);
}

/// The network of the pretrained weights, unless a word names another one. Returns whether it is that.
bool add_network(ConfigSources& sources, const std::string& name) {
  add(sources.fitted, "model.name", name);
  std::vector<std::string> said_later;
  if (load_config(sources, &said_later).model.name == name) return true;
  sources.fitted.pop_back();
  return false;
}

void add_model(ConfigSources& sources, const Model& pretrained) {
  if (!add_network(sources, pretrained.name)) return;
  for (const auto& [key, value] : model_key_texts(pretrained)) add(sources.fitted, ("model." + key).c_str(), value);
}

/// As the weights were trained, where they say it.
void add_size(std::vector<ConfigOverride>& all, const std::string& model, const std::string& pretrained,
              const std::optional<WeightsInfo>& info) {
  int64_t size = 32, resize = 0;
  const bool is_resnet = model.starts_with("resnet") && model != "resnet9";
  if (is_resnet) size = pretrained.empty() ? 64 : 224;
  if (info) {
    size = info->sample.height;
    resize = info->resize;
    add(all, "data.normalize.mean", list_text(info->mean));
    add(all, "data.normalize.std", list_text(info->std));
  }
  if (resize == 0) resize = size < 100 ? size : size * 8 / 7;  // 256 for 224, as is usual
  add(all, "data.size", str(size));
  add(all, "data.resize", str(resize));
}

}  // namespace

bool holds_own_pictures(const std::filesystem::path& path) {
  const auto found = find_data("auto", path);
  return found && found->kind->pictures;
}

std::vector<ConfigOverride> fitted_to_pictures(ConfigSources sources, const std::string& pretrained) {
  std::vector<std::string> said_later;
  const auto loaded = [&] { return load_config(sources, &said_later); };
  std::vector<ConfigOverride>& fitted = sources.fitted;
  const bool is_published = published_weights(pretrained) != nullptr;
  const std::optional<WeightsInfo> info = is_published ? std::nullopt : info_of_pretrained(pretrained);
  if (info) add_model(sources, info->model);
  if (is_published) add_network(sources, pretrained);
  add_size(fitted, loaded().model.name, pretrained, info);
  const Config first = loaded();
  const Datasets data = open_datasets(first, *make_solo(), IfAbsent::keep_in_memory);
  const auto images = static_cast<uint64_t>(data.training().count());

  // Two steps an epoch at least. Micro-batches of about 8 or more: batch norms need some images.
  add(fitted, "train_batch_size", str(std::clamp<uint64_t>(std::bit_floor(images / 2), 1, 64)));
  const int64_t batch = loaded().batch.train.value_or(1);  // which other words may set
  int64_t micro = std::max(batch / 4, std::min<int64_t>(batch, 8));
  while (batch % micro != 0) --micro;
  if (micro < 4) micro = batch;  // its divisors are too small
  add(fitted, "train_micro_batch_size_per_gpu", str(micro));
  const Config config = loaded();
  const BatchSizes sizes = batch_for(config.batch, 1);
  const int64_t epoch = std::max<int64_t>(static_cast<int64_t>(images) / sizes.train, 1);
  const int64_t warm_up = run_steps(config, epoch) / 10;
  add(fitted, "scheduler.params.warmup_num_steps", str(warm_up < 2 ? 0 : warm_up));  // 1 counts as 2
  // Weights are written at every evaluation, and take longer than a few pictures.
  const auto every = [&](int64_t part) { return std::max<int64_t>(config.train.epochs / part, 1) * epoch; };
  add(fitted, "train.eval_interval", str(every(20)));
  add(fitted, "train.save_interval", str(every(4)));
  add(fitted, "train.log_interval", str(every(20) * sizes.train / sizes.micro));
  return fitted;
}

}  // namespace ct
