#include "cli/other_words.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/verbs.h"
#include "train/config/suggest.h"

namespace ct {
namespace {

using Meaning = std::pair<std::string_view, std::string_view>;

constexpr Meaning kVerbs[] = {
    {"test", "eval"},
    {"val", "eval"},
    {"validate", "eval"},
    {"validation", "eval"},
    {"score", "eval"},
    {"fit", "train"},
    {"finetune", "train"},
    {"fine-tune", "train"},
    {"run", "train"},
    {"learn", "train"},
    {"resume", "train"},
    {"infer", "predict"},
    {"inference", "predict"},
    {"classify", "predict"},
    {"find-lr", "lr-find"},
    {"lr-finder", "lr-find"},
    {"tune", "sweep"},
    {"search", "sweep"},
    {"grid", "sweep"},
    {"plot", "report"},
    {"visualize", "report"},
    {"convert", "data convert"},
    {"inspect", "ckpt inspect"},
    {"checkpoint", "ckpt"},
    {"checkpoints", "ckpt"},
    {"dataset", "data"},
    {"benchmark", "bench"},
    {"profile", "bench step --ops"},
    {"check", "config check"},
    {"info", "doctor"},
    {"sbatch", "jobscript"},
    {"slurm", "jobscript"},
};

/// In the order in which they are tried: the first that the verb has is meant.
constexpr Meaning kOptions[] = {
    {"learning-rate", "--lr"},
    {"max-lr", "--lr"},
    {"bs", "--batch-size"},
    {"batch", "--batch-size"},
    {"train-batch-size", "--batch-size"},
    {"batch-size", "--set train_batch_size=N"},
    {"num-epochs", "--epochs"},
    {"n-epochs", "--epochs"},
    {"max-epochs", "--epochs"},
    {"num-train-epochs", "--epochs"},
    {"weights", "--ckpt"},
    {"weights", "--pretrained"},
    {"checkpoint", "--ckpt"},
    {"checkpoint", "--pretrained"},
    {"ckpt", "--pretrained"},
    {"ckpt-path", "--ckpt"},
    {"model-path", "--ckpt"},
    {"model-path", "--pretrained"},
    {"model", "--ckpt"},
    {"load", "--pretrained"},
    {"finetune", "--pretrained"},
    {"arch", "--model"},
    {"model-name", "--model"},
    {"net", "--model"},
    {"data-dir", "--data"},
    {"data-path", "--data"},
    {"data-root", "--data"},
    {"dataset", "--data"},
    {"train-dir", "--data"},
    {"output-dir", "--output"},
    {"out-dir", "--output"},
    {"save-dir", "--output"},
    {"logdir", "--output"},
    {"out", "--output"},
    {"output", "--out"},
    {"resume-from", "--resume"},
    {"resume-from-checkpoint", "--resume"},
    {"cfg", "--config"},
    {"config-file", "--config"},
    {"gpu", "--device"},
    {"cuda", "--device"},
    {"accelerator", "--device"},
    {"gpus", "--ranks"},
    {"nproc", "--ranks"},
    {"world-size", "--ranks"},
    {"topk", "--top"},
    {"k", "--top"},
    {"precision", "--dtype"},
    {"fp16", "--dtype"},
    {"bf16", "--dtype"},
    {"seed", "--set seed=N"},
    {"optimizer", "--set optimizer.type=NAME"},
    {"opt", "--set optimizer.type=NAME"},
    {"momentum", "--set optimizer.params.momentum=X"},
    {"weight-decay", "--set optimizer.params.weight_decay=X"},
    {"wd", "--set optimizer.params.weight_decay=X"},
    {"scheduler", "--set scheduler.type=NAME"},
    {"workers", "--set data.workers=N"},
    {"num-workers", "--set data.workers=N"},
    {"img-size", "--set data.size=N"},
    {"image-size", "--set data.size=N"},
    {"max-steps", "--set train.max_steps=N"},
    {"patience", "--set train.early_stopping.patience=N"},
    {"label-smoothing", "--set train.label_smoothing=X"},
    {"num-gpus", "--ranks"},
    {"confusion-matrix", "--confusion"},
    {"freeze", "--set train.freeze=LIST"},
    {"val", "--set data.validation=20%"},
    {"val-split", "--set data.validation=20%"},
    {"validation-split", "--set data.validation=20%"},
    {"class-weights", "--set train.class_weights=auto"},
};

/// "--Learning_Rate=0.1": "learning-rate".
std::string plain_name(const std::string& word) {
  std::string name = lower_case(word.substr(0, word.find('=')));
  std::ranges::replace(name, '_', '-');
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

}  // namespace

std::string verb_meant(const std::string& word) {
  const std::string name = plain_name(word);
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.emplace_back(verb.name);
  if (std::ranges::find(names, name) != names.end()) return name;  // "lr_find"
  if (const auto* const found = std::ranges::find(kVerbs, name, &Meaning::first); found != std::end(kVerbs))
    return std::string(found->second);
  std::string near = nearest(name, names);
  if (near.empty())  // "evaluate", "conf"
    for (const std::string& verb : names)
      if (name.starts_with(verb) || (name.size() > 2 && verb.starts_with(name))) near = verb;
  return near;
}

std::string option_meant(const std::string& word, const std::vector<std::string>& options) {
  const std::string name = plain_name(word);
  const auto has = [&](std::string_view option) {
    return std::ranges::find(options, option.substr(0, option.find(' '))) != options.end();
  };
  if (has("--" + name)) return "--" + name;
  for (const auto& [theirs, ours] : kOptions)
    if (theirs == name && has(ours)) return std::string(ours);
  return nearest("--" + name, options);
}

}  // namespace ct
