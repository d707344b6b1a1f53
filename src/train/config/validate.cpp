#include "train/config/validate.h"

#include <algorithm>
#include <cmath>

#include "model/models.h"
#include "train/config/foreign.h"
#include "train/config/schema.h"
#include "train/config/suggest.h"
#include "train/freezing.h"

namespace ct {
namespace {

using document::fail_at;
using document::Node;
using document::quoted;

void read_fields(const Merge& merge, Config& config, std::vector<std::string>* warnings) {
  std::string open;
  for (const bool types : {true, false})  // which decide what other keys there are
    for (const ConfigField& field : config_fields(config)) {
      const Node* node = is_type(field) == types ? merge.find(field.key) : nullptr;
      if (!node) continue;
      read_or_leave_open(config, field, *node);
      if (!is_left_open(field, *node) || node->kind == document::Kind::null) continue;
      if (follows(field) && is_parameter(field.key))
        continue;  // a schedule as long as the run, as the shipped recipes say it
      open += str(open.empty() ? "" : ", ", field.key, follows(field) ? "" : str(" ", field_text(field)));
    }
  if (!open.empty()) warnings->push_back("\"auto\" follows from other keys, or is the default: " + open);
}

/// Which parameters the type of this block takes; empty: it has none.
std::vector<std::string> parameters_of(const Config& config, const std::string& block, std::string* type) {
  Config copy = config;
  std::vector<std::string> names;
  const std::string prefix = block + ".params.";
  for (const ConfigField& field : config_fields(copy)) {
    if (field.key == block + ".type") *type = field_text(field);
    if (field.key.starts_with(prefix)) names.push_back(field.key.substr(prefix.size()));
  }
  return names;
}

std::string stray_parameter(const Config& config, const std::string& key) {
  const std::string block = key.substr(0, key.find('.')), name = key.substr(block.size() + 1 + sizeof "params");
  if (name == "max_grad_norm")
    return key +
           ": 'max_grad_norm' is not supported as an optimizer parameter, please switch to using the deepspeed "
           "parameter 'gradient_clipping'";
  std::string type;
  const std::vector<std::string> names = parameters_of(config, block, &type);
  if (type.empty()) return str(key, " needs ", block, ".type");
  if (std::ranges::find(names, name) != names.end() || find_inert(key)) return "";
  Config copy = config;
  const std::string meant = suggest_key(key, config_fields(copy));
  return str("unknown key ", quoted(key), "; ", type, " takes ", join_choices(names),
             meant.starts_with("; did you mean '" + block + ".params.") ? meant : "");
}

std::string stray_model_key(const Config& config, const std::string& key) {
  const auto takes = [](Model model, const std::string& name) {
    const std::vector<ConfigKey> keys = model.keys();
    return std::ranges::find(keys, name, &ConfigKey::name) != keys.end();
  };
  const std::string name = key.substr(sizeof "model");
  if (name == "name" || find_inert(key) || takes(config.model, name)) return "";
  std::vector<std::string> others;
  for (const std::string& other : model_names())
    if (takes({.name = other}, name)) others.push_back(other);
  return str(key, " is not a key of the model ", config.model.name, "; ", join_choices(others),
             others.size() == 1 ? " takes it" : " take it");
}

/// One line for all that is ignored; an error for a value that would change the result.
void check_inert(const Merge& merge, Config& config, std::vector<std::string>* warnings) {
  const std::vector<ConfigField> fields = config_fields(config);
  std::string ignored;
  for (const auto& [key, node] : merge.values()) {
    const InertKey* inert = find_inert(key);
    if (!inert || std::ranges::find(fields, key, &ConfigField::key) != fields.end()) continue;
    if (!is_harmless(*inert, node)) fail_at(node.mark, refusal_of(*inert, key, node));
    ignored += (ignored.empty() ? "" : ", ") + key;
  }
  if (!ignored.empty()) warnings->push_back("ignored, because they have no effect here: " + ignored);
}

/// Checks that every group has parameters, by the model's names and shapes.
void check_groups(const Config& config, const std::string& where) {
  if (config.optimizer_groups.empty()) return;
  try {
    optim::treatments(graph_of_any_images(config.model), config.optimizer_groups, 0);
  } catch (const Error& error) {
    fail(error.code(), where, error.what());
  }
}

}  // namespace

Graph graph_of_any_images(const Model& model) {
  const int64_t side = some_side(model);
  return build_graph(
      find_model(model),
      {.batch = 1, .height = side, .width = side, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = Mode::evaluate});
}

std::string place_of_key(const Config& config, const std::string& key) {
  const auto found = config.origins.find(key);
  return (found == config.origins.end() ? std::string("default") : found->second) + ": ";
}

void read_or_leave_open(Config& config, const ConfigField& field, const Node& node) {
  if (!is_left_open(field, node)) {
    read_field(field, node);
    config.origins[field.key] = node.mark.text();
    return;
  }
  const std::string_view rate = optim::overrides_lr(config.scheduler);
  if (!config.optimizer || field.key != str("scheduler.params.", rate)) return;
  const double lr = std::visit([](const auto& o) { return o.rates().lr; }, *config.optimizer);
  if (auto* const* target = std::get_if<double*>(&field.target)) **target = lr;
  if (auto* const* target = std::get_if<std::optional<double>*>(&field.target)) **target = lr;
}

std::string stray_key(const Config& config, const std::string& key) {
  if (is_parameter(key)) return stray_parameter(config, key);
  return key.starts_with("model.") ? stray_model_key(config, key) : "";
}

void settle_together(Config& config) {
  if (config.elasticity.enabled) {
    config.batch.elastic = config.elasticity.keys;
    config.batch.elastic->may_exceed = config.compat.has(CompatFlag::elastic_excess);
  }
  // compat: the keys of a dynamic scale say by their absence alone what the reference begins with.
  constexpr const char* kDynamic[] = {"fp16.initial_scale_power", "fp16.loss_scale_window", "fp16.hysteresis",
                                      "fp16.consecutive_hysteresis", "fp16.min_loss_scale"};
  const bool silent = std::ranges::none_of(kDynamic, [&](const char* key) { return config.origins.contains(key); });
  if (!config.compat.has(CompatFlag::scale_2_32) || !config.fp16.enabled || config.fp16.loss_scale != 0 ||
      config.zero_optimization.stage == 0 || !silent)
    return;
  config.fp16.initial_scale_power = 32;
  config.fp16.hysteresis = 1;
  for (const char* key : {"fp16.initial_scale_power", "fp16.hysteresis"})
    config.origins[key] = "compat: " + std::string(word_of(CompatFlag::scale_2_32));
}

void check_together(const Config& config, std::vector<std::string>* warnings) {
  const auto at = [&](const std::string& key) { return place_of_key(config, key); };
  if (config.fp16.enabled && config.bf16.enabled == true)
    fail(ExitCode::usage, at("fp16.enabled"),
         "fp16.enabled and bf16.enabled are both true; switch one off: bfloat16 and fp16 modes cannot be "
         "simultaneously enabled");
  if (config.device == "cpu" && config.fp16.enabled) fail(ExitCode::usage, at("fp16.enabled"), kNoFp16OnCpu);
  if (config.device == "cpu" && config.communication.backend == CommBackend::nccl)
    fail(ExitCode::usage, at("communication.backend"), kNoNcclOnCpu);
  if (config.device.starts_with("cuda") && config.zero_optimization.offload_param_device == OffloadDevice::cpu)
    fail(ExitCode::usage, at("zero_optimization.offload_param.device"), kNoParamOffload);
  if (config.fp16.enabled && config.fp16.loss_scale == 0 &&
      config.fp16.min_loss_scale > std::ldexp(1.0, static_cast<int>(config.fp16.initial_scale_power)))
    fail(ExitCode::usage, at("fp16.min_loss_scale"),
         "fp16.min_loss_scale is above the first scale, 2^fp16.initial_scale_power; lower it");
  const auto check_keys = [&](const std::string& block, const char* name, const std::optional<ConfigFault>& fault) {
    if (!fault) return;
    const std::string key = block + fault->key;
    fail(ExitCode::usage, at(config.origins.contains(key) ? key : name), key, " ", fault->text);
  };
  check_keys("model.", "model.name", config.model.fault());
  if (config.origins.contains("model.mlp_dim") && text_of_key(config, "model.ffn") == "fff")
    warnings->push_back(at("model.mlp_dim") +
                        "model.mlp_dim has no effect if model.ffn is fff, whose trees have fff_depth and similar keys");
  if (config.optimizer) check_keys("optimizer.params.", "optimizer.type", optim::fault_of(*config.optimizer));
  check_keys("scheduler.params.", "scheduler.type", optim::fault_of(config.scheduler));
  if (const std::string doubt = optim::doubt_of(config.scheduler); !doubt.empty())
    warnings->push_back("scheduler.params." + doubt);
  if (const auto& bucket = config.zero_optimization.allgather_bucket_size; bucket && *bucket % 2 != 0)
    fail(ExitCode::usage, at("zero_optimization.allgather_bucket_size"), "zero_optimization.allgather_bucket_size ",
         *bucket, ": allgather_bucket_size must be a multiple of 2 (nccl alignment)");
  const auto& zero = config.zero_optimization;
  for (const auto& [key, bucket] : {std::pair{"zero_optimization.reduce_bucket_size", zero.reduce_bucket_size},
                                    {"zero_optimization.allgather_bucket_size", zero.allgather_bucket_size}})
    if (bucket == 0) warnings->push_back(str(at(key), key, " 0 leaves the size to the program"));
  check_groups(config, at("optimizer.groups"));
  if (!config.train.freeze.empty())
    require_learning(config, graph_of_any_images(config.model), at("train.freeze"));
  else if (config.train.unfreeze_at > 0)
    warnings->push_back(at("train.unfreeze_at") + "train.unfreeze_at has no effect without train.freeze");
  if (!config.train.freeze.empty() && config.train.unfreeze_at >= std::max<int64_t>(config.train.epochs, 1))
    warnings->push_back(str(at("train.unfreeze_at"), "train.unfreeze_at ", config.train.unfreeze_at,
                            " unfreezes nothing, because train.epochs is ", config.train.epochs));
  check_foreign(config);
  const bool divided_before = config.prescale_gradients || config.gradient_predivide_factor != 1;
  if (divided_before && config.zero_optimization.stage == 2)
    warnings->push_back(
        str(at(config.prescale_gradients ? "prescale_gradients" : "gradient_predivide_factor"),
            "DeepSpeed refuses this (pre-scale gradients is not yet supported with ZeRO-2 with reduce scatter "
            "enabled); here every stage supports it"));
  for (const auto& [monitor, key] :
       {std::pair{&config.tensorboard, "tensorboard"}, {&config.csv_monitor, "csv_monitor"}})
    if (const std::string& job = monitor->job_name; job.find('/') != std::string::npos || job == "..")
      fail(ExitCode::usage, at(str(key, ".job_name")), key, ".job_name must name one folder in ", key,
           ".output_path, found ", quoted(job));
  if (config.data.resize < config.data.size)
    fail(ExitCode::usage, at(config.origins.contains("data.resize") ? "data.resize" : "data.size"),
         "data.resize is less than data.size, which is cut from it: ", config.data.resize, " and ", config.data.size);
  if (config.data.sampler == Sampler::balanced && !config.data.shuffle)
    fail(ExitCode::usage, at("data.sampler"),
         "data.sampler balanced draws images at random; remove data.shuffle false");
  if (config.data.validation.is_folder() && !config.data.val.empty())
    fail(ExitCode::usage, at("data.validation"), "data.validation and data.val both name a folder: give one of them");
  if (config.train.early_stopping.patience > 0 && config.train.best.split == BestSplit::last)
    fail(ExitCode::usage, at("train.early_stopping.patience"),
         "train.early_stopping.patience needs train.best.split val or test, whose results it watches");
  const std::string_view of_schedule = optim::overrides_lr(config.scheduler);
  const std::string_view of_peak = optim::peak_lr(config.scheduler);
  Config copy = config;
  std::string lr, instead, peak;
  for (const ConfigField& field : config_fields(copy)) {
    if (field.key == "optimizer.params.lr") lr = field_text(field);
    if (field.key == str("scheduler.params.", of_schedule)) instead = field_text(field);
    if (field.key == str("scheduler.params.", of_peak)) peak = field_text(field);
  }
  if (!instead.empty() && instead != lr && peak != lr && config.origins.contains("optimizer.params.lr"))
    warnings->push_back(str("scheduler.params.", of_schedule, " ", instead, " overrides optimizer.params.lr ", lr,
                            ", as in DeepSpeed"));
  if (const std::string betas = optim::overrides_betas(config.scheduler); config.optimizer && !betas.empty())
    warnings->push_back(
        optim::has_betas(*config.optimizer)
            ? str("scheduler.params.cycle_momentum overrides optimizer.params.betas, as in DeepSpeed: ", betas)
            : str("scheduler.params.cycle_momentum changes nothing, as in DeepSpeed: ",
                  optim::type_of(*config.optimizer), " has no betas"));
}

Config validate(const Merge& merge, const std::string& where, std::vector<std::string>* warnings) {
  Config config;
  warnings->insert(warnings->end(), merge.remarks().begin(), merge.remarks().end());
  read_fields(merge, config, warnings);
  check_inert(merge, config, warnings);
  for (const auto& [key, node] : merge.values())
    if (const std::string why = stray_key(config, key); !why.empty()) fail_at(node.mark, why);
  if (!config.optimizer)
    fail(ExitCode::usage, where,
         "no optimizer is given; add one, such as optimizer: {type: Adam, params: {lr: 0.001}}");
  settle_together(config);
  check_together(config, warnings);
  return config;
}

}  // namespace ct
