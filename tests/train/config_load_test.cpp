#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "model/models.h"
#include "train/config/find.h"
#include "train/config/load.h"
#include "train/config/print.h"
#include "train/config/resume.h"
#include "train/config/schema.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

const fs::path kShipped = fs::path(__FILE__).parent_path() / ".." / ".." / "configs";

class ConfigTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  Config load(const std::string& text, const std::vector<std::string>& sets = {}) {
    return load_config({.files = {write("c.yaml", text)}, .sets = sets}, &warnings_);
  }
  /// The error of a configuration, without the folder's name.
  std::string error(const ConfigSources& sources) {
    try {
      load_config(sources, &warnings_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      std::string text = error.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      const std::string prefix = folder_.string() + "/";
      for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
      return text;
    }
    return "no error";
  }
  std::string error(const std::string& text, const std::vector<std::string>& sets = {}) {
    return error(ConfigSources{.files = {write("c.yaml", text)}, .sets = sets});
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::vector<std::string> warnings_;
};

const std::string kAdam = "optimizer: {type: Adam}\n";

/// Throws for another type.
template <class Type>
Type optimizer(const Config& config) {
  return std::get<Type>(config.optimizer.value());
}

#define EXPECT_PART(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(ConfigTest, ShippedDefaultSpellsOutTheDefaults) {
  Config shipped = load_config({.files = {kShipped / "default.yaml"}}, &warnings_);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(batch_for(shipped.batch, 2), (BatchSizes{16, 4, 2}));
  EXPECT_EQ(optimizer<optim::Adam>(shipped).betas, (std::array{0.8, 0.999}));
  EXPECT_EQ(optim::type_of(shipped.scheduler), "WarmupLR");
  Config expected;  // every other key: the value of an absent one
  expected.batch = shipped.batch;
  expected.optimizer = shipped.optimizer;
  expected.scheduler = shipped.scheduler;
  EXPECT_TRUE(shipped == expected) << to_yaml(shipped) << to_yaml(expected);
  // All keys are shown, so that the file is the vocabulary; those without a place in it are listed here.
  for (const ConfigField& field : effective_fields(shipped)) {
    const std::set<std::string> hidden = {"train.max_bad_steps",
                                          "checkpoint.asynchronous",
                                          "optimizer.params.adam_w_mode",
                                          "optimizer.params.bias_correction",
                                          "optimizer.params.no_decay",
                                          "scheduler.params.warmup_type",
                                          "zero_optimization.stage3_param_persistence_threshold",
                                          "zero_optimization.offload_optimizer.device",
                                          "elasticity.enabled",
                                          "prescale_gradients",
                                          "gradient_predivide_factor",
                                          "communication_data_type"};
    EXPECT_NE(shipped.origins.contains(field.key), hidden.contains(field.key)) << field.key;
  }
}

TEST_F(ConfigTest, ShippedFilesLoad) {
  const Config tutorial = load_config({.files = {kShipped / "tutorial.yaml"}}, &warnings_);
  EXPECT_EQ(optimizer<optim::Sgd>(tutorial).momentum, 0.9);
  EXPECT_EQ(optim::type_of(tutorial.scheduler), "");
  EXPECT_EQ(fitting_ranks(tutorial.batch, 9), std::vector<int64_t>{1});
  const Config linear = load_config({.files = {kShipped / "linear.yaml"}}, &warnings_);
  Config expected = load_config({.files = {kShipped / "default.yaml"}}, &warnings_);
  expected.model.name = "linear";
  expected.output = "runs/linear";
  EXPECT_TRUE(linear == expected);
  const Config resnet = load_config({.files = {kShipped / "resnet18.yaml"}}, &warnings_);
  EXPECT_EQ(resnet.model.name, "resnet18");
  EXPECT_EQ(resnet.data.augment.size(), 2u);
  EXPECT_EQ(fitting_ranks(resnet.batch, 9), (std::vector<int64_t>{1, 2, 4}));
  const Config resnet18 = load_config({.files = {kShipped / "resnet18_imagenet.yaml"}}, &warnings_);
  EXPECT_EQ(fitting_ranks(resnet18.batch, 9), (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

TEST_F(ConfigTest, ShippedImagenetFilesLoadTogether) {
  const Config config =
      load_config({.files = {kShipped / "imagenet_resnet50.yaml", kShipped / "imagenet_ds_config.json"}}, &warnings_);
  EXPECT_EQ(fitting_ranks(config.batch, 99), (std::vector<int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
  EXPECT_EQ(optimizer<optim::AdamW>(config).weight_decay, 0.05);
  EXPECT_EQ(optim::type_of(config.scheduler), "WarmupCosineLR");
  EXPECT_TRUE(config.fp16.enabled);
  EXPECT_EQ(config.zero_optimization.offload_optimizer_device, OffloadDevice::cpu);
  EXPECT_EQ(config.train.save_interval, 60);
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_PART(warnings_[0], "scheduler.params.total_num_steps");
  EXPECT_PART(warnings_[1], "fp16.auto_cast");
}

TEST_F(ConfigTest, ShippedTransformersLoad) {
  const Config ours = load_config({.files = {kShipped / "vit_tiny.yaml"}}, &warnings_);
  EXPECT_EQ(fitting_ranks(ours.batch, 9), (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_FALSE(ours.bf16.enabled.has_value());
  EXPECT_EQ(ours.data.validation, 5000);
  EXPECT_EQ(ours.train.best.split, BestSplit::val);
  EXPECT_EQ(ours.gradient_clipping, 5);
  const Config seeds = load_config({.files = {kShipped / "vit_tiny_fp16.yaml"}}, &warnings_);
  EXPECT_TRUE(seeds.fp16.enabled);
  EXPECT_EQ(seeds.data.validation, 0);
  EXPECT_EQ(seeds.train.best.split, BestSplit::test);
  EXPECT_EQ(batch_for(seeds.batch, 3), (BatchSizes{1536, 256, 2}));
  for (const Config& config : {ours, seeds}) {
    EXPECT_EQ(optimizer<optim::AdamW>(config).betas, (std::array{0.8, 0.999}));
    EXPECT_EQ(std::get<optim::OneCycle>(config.scheduler).cycle_max_lr, 4e-3);
    EXPECT_EQ(config.train.early_stopping.patience, 50);
    EXPECT_EQ(config.data.mean, std::vector<double>(3));
  }
  ASSERT_EQ(warnings_.size(), 2u);
  for (const std::string& warning : warnings_) EXPECT_PART(warning, "overrides optimizer.params.betas");
}

TEST_F(ConfigTest, AbsentKeysFollowTheContract) {
  const Config config = load(kAdam + "train_batch_size: 8\n");
  const optim::Adam& adam = optimizer<optim::Adam>(config);
  EXPECT_EQ(adam.lr, 1e-3);
  EXPECT_EQ(adam.betas, (std::array{0.9, 0.999}));
  EXPECT_EQ(adam.weight_decay, 0);
  EXPECT_TRUE(adam.adam_w_mode);
  EXPECT_EQ(optim::type_of(config.scheduler), "");
  EXPECT_FALSE(config.batch.micro);
  EXPECT_EQ(optim::type_of(load(kAdam + "scheduler: {}").scheduler), "");
  EXPECT_EQ(optim::type_of(*load("optimizer: {type: adamw}").optimizer), "AdamW");
  EXPECT_PART(error("seed: 1"), "c.yaml: no optimizer");
  EXPECT_PART(error(""), "no optimizer");
  EXPECT_PART(error("optimizer: {}"), "no optimizer");
  EXPECT_PART(error("optimizer:\n  params: {lr: 1}"), "needs optimizer.type");
}

TEST_F(ConfigTest, UnknownKeysNameTheirPlaceAndTheNearestKey) {
  EXPECT_EQ(error("seed: 1\ntrain:\n  epoch: 3\n"),
            "c.yaml:3:3: unknown key 'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_EQ(error("optimzer: {type: Adam}"), "c.yaml:1:1: unknown key 'optimzer'; did you mean 'optimizer'?");
  EXPECT_PART(error("schedluer: {type: WarmupLR}"), "did you mean 'scheduler'?");
  for (const auto& [slip, meant] :
       std::map<std::string, std::string>{{"schedluer.type", "scheduler.type"},
                                          {"cdua.path", "cuda.path"},
                                          {"fp61.enabled", "fp16.enabled"},
                                          {"trian.epohcs", "train.epochs"},
                                          {"trian.early_stopping.metric", "train.early_stopping.metric"}})
    EXPECT_PART(error(kAdam, {slip + "=1"}), str("unknown key '", slip, "'; did you mean '", meant, "'?"));
  EXPECT_EQ(error("lr: 0.1"), "c.yaml:1:1: unknown key 'lr'; did you mean 'optimizer.params.lr'?");
  EXPECT_EQ(error("zzzzzz: 0.1"), "c.yaml:1:1: unknown key 'zzzzzz'");
  EXPECT_EQ(error("zero_optimization: {stge: 0}"),
            "c.yaml:1:21: unknown key 'zero_optimization.stge'; did you mean 'zero_optimization.stage'?");
  EXPECT_PART(error("optimizer: {type: Adam, params: {momentum: 0.9}}"),
              "c.yaml:1:44: unknown key 'optimizer.params.momentum'; Adam takes lr");
  EXPECT_PART(error("train.epochs: 3"), "unknown key 'train.epochs'");
  EXPECT_PART(error(kAdam, {"train.epoch=3"}),
              "--set train.epoch=3: unknown key 'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_PART(error(kAdam, {"train.epochs.x=3"}), "unknown key");
  EXPECT_PART(error("\"a\\nb\": 1"), "unknown key 'a\\nb'");
}

TEST_F(ConfigTest, TypesAndRangesAreChecked) {
  const std::pair<std::string, std::string> cases[] = {
      {"seed: x", "c.yaml:1:7: seed expects a whole number, found 'x'"},
      {"seed: 1.5", "whole number, found '1.5'"},
      {"seed: 99999999999999999999", "seed has too large a whole number, found '99999999999999999999'"},
      {"seed: -99999999999999999999", "whole number, found '-99999999999999999999'"},
      {"gradient_clipping: -99999999999999999999", "at least 0, found -1e+20"},
      {"seed: -1", "seed must be at least 0, found -1"},
      {"seed:", "seed expects a whole number, found nothing"},
      {"seed: {a: 1}", "seed expects a whole number"},
      {"train: 3", "c.yaml:1:8: train is a block of keys, found '3'"},
      {"train: {epochs: true}", "whole number, found 'true'"},
      {"train: {label_smoothing: 1}", "at least 0 and less than 1, found 1"},
      {"data: {shuffle: 1}", "true or false, found '1'"},
      {"output: 7", "text (put it in quotes)"},
      {"output: \"\"", "output expects text"},
      {"output: \"a\\nb\"", "on one line"},
      {"model: {name: cnnn}",
       "c.yaml:1:15: model.name must be " + join_choices(model_names()) + ", found 'cnnn'; did you mean cnn?"},
      {"data: {normalize: {mean: 0.5}}", "a list of numbers, one for each channel"},
      {"data: {normalize: {mean: []}}", "a list of numbers, one for each channel"},
      {"data: {limit: -1}", "data.limit must be at least 0"},
      {"data: {normalize: {std: [0.5, 0, 1]}}", "c.yaml:1:31: data.normalize.std must be more than 0, found 0"},
      {"data: {augment: flip}", "a list of steps"},
      {"data: {augment: [flop]}", "did you mean flip?"},
      {"data: {augment: [{flip: {q: 1}}]}", "unknown key 'data.augment.flip.q'; flip takes p"},
      {"data: {augment: [{flip: {p: 2}}]}", "data.augment.flip.p must be at least 0 and at most 1"},
      {"data: {augment: [{flip: 2}]}", "in braces"},
      {"data: {augment: [3]}", "a list of steps"},
      {"data: {augment: [{alternating_flip: {p: 0.5}}]}", "alternating_flip takes none"},
      {"data: {augment: [{random_resized_crop: {scale: [1, 0.5]}}]}",
       "c.yaml:1:48: data.augment.random_resized_crop.scale"},
      {"data: {augment: [{random_resized_crop: {scale: [0, 1]}}]}", "scale must be more than 0 and at most 1, found 0"},
      {"data: {augment: [{random_resized_crop: {ratio: [0.001, 1]}}]}", "ratio must be at least 0.01 and at most 100"},
      {"data: {augment: [{cutout: {length: 0}}]}", "data.augment.cutout.length must be at least 1 and at most 2048"},
      {"data: {augment: [{cutout: {length: 1e300}}]}", "data.augment.cutout.length has too large a whole number"},
      {"data: {augment: [{color_jitter: {hue: 0.6}}]}",
       "color_jitter.hue must be at least 0 and at most 0.5, found 0.6"},
      {"data: {augment: [{color_jitter: {contrast: -1}}]}", "contrast must be at least 0 and at most 10, found -1"},
      {"data: {augment: [{rand_augment: {num_ops: 0}}]}", "num_ops must be at least 1 and at most 14"},
      {"data: {augment: [{rand_augment: {num_magnitude_bins: 1}}]}", "bins must be at least 2 and at most 1000"},
      {"data: {augment: [{rand_augment: {magnitude: 31}}]}",
       "c.yaml:1:45: data.augment.rand_augment.magnitude must be at least 0 and at most 30"},
      {"data: {augment: [{mixup: {alpha: 0}}]}", "mixup.alpha must be at least 0.001 and at most 100, found 0"},
      {"data: {augment: [{cutmix: {p: 1.5}}]}", "data.augment.cutmix.p must be at least 0 and at most 1"},
      {"data: {augment: [{cutmix: {beta: 1}}]}", "cutmix takes alpha or p"},
      {"data: {augment: [{normalize: {mean: [1], std: [1]}}, flip]}", "c.yaml:1:19: data.augment normalize comes last"},
      {"data: {augment: [flip, normalize]}", "data.augment normalize needs its numbers"},
      {"data: {augment: [{normalize: {mean: [0], std: [0]}}]}", "data.normalize.std must be more than 0, found 0"},
      {"data: {augment: [{normalize: {}}]}", "c.yaml:1:18: data.augment normalize needs its numbers"},
      {"data: {augment: [{normalize: {mean: [0.5]}}]}", "c.yaml:1:18: data.augment normalize needs its numbers"},
      {"data: {augment: [{normalize: {std: [0.5]}}]}", "c.yaml:1:18: data.augment normalize needs its numbers"},
      {"data: {augment: [{normalize: [0.5]}]}", "c.yaml:1:18: data.augment normalize needs its numbers"},
      {"data: {normalize: {mean: [0.4]}, augment: [flip, {normalize: {mean: [0.5], std: [0.5]}}]}",
       "c.yaml:1:8: data.normalize is given by the last step of data.augment too (c.yaml:1:"},
      {"data: {augment: [{normalize: {mean: [0.5], std: [0.5]}}], normalize: {std: [0.4]}}",
       "c.yaml:1:59: data.normalize is given by the last step of data.augment too"},
      {"data: {augment: [f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f,f]}",
       "at most 32 steps, found 33"},
      {"optimizer: {type: Adam, params: {betas: [0.9, 1]}}", "less than 1, found 1"},
      {"optimizer: {type: SGD, params: {nesterov: true}}", "c.yaml:1:43: optimizer.params.nesterov needs a momentum"},
      {"train_batch_size: 99999999", "at most 1048576"},
      {"communication: {heartbeat_s: 0}",
       "c.yaml:1:30: communication.heartbeat_s must be more than 0 and at most 1e+06, found 0"},
      {"communication: {heartbeat_s: .nan}", "'.nan' is not a finite number"},
      {"communication: {timeout_s: -1}", "communication.timeout_s must be more than 0"},
      {"communication: {timeout_s: 1e300}", "communication.timeout_s must be more than 0 and at most 1e+06"},
      {"communication: {timeout_s: soon}", "communication.timeout_s expects a number, found 'soon'"},
      {"communication: {check_interval: -1}", "communication.check_interval must be at least 0"},
      {"communication: {check_interval: 0.5}", "whole number, found '0.5'"},
      {"communication: {reproducible: 1}", "true or false, found '1'"},
      {"checkpoint: {asynchronous: maybe}", "checkpoint.asynchronous expects true or false, found 'maybe'"},
      {"zero_optimization: 3", "zero_optimization is a block of keys, found '3'"},
      {"zero_optimization: {stage: 4}", "zero_optimization.stage must be at least 0 and at most 3, found 4"},
      {"zero_optimization: {stage: -1}", "at most 3, found -1"},
      {"zero_optimization: {stage: two}", "zero_optimization.stage expects a whole number, found 'two'"},
      {"zero_optimization: {reduce_bucket_size: 0}",
       "zero_optimization.reduce_bucket_size must be at least 1, found 0"},
      {"zero_optimization: {reduce_bucket_size: 1.5}", "whole number, found '1.5'"},
      {"zero_optimization: {reduce_bucket_size: 1e20}", "whole number, found '1e"},
      {"zero_optimization: {reduce_bucket_size: some}", "whole number, found 'some'"},
      {"zero_optimization: {allgather_bucket_size: -5e8}",
       "zero_optimization.allgather_bucket_size must be at least 1"},
      {"zero_optimization: {allgather_bucket_size: }", "expects a whole number, found nothing"},
      {"zero_optimization: {overlap_comm: 1}", "zero_optimization.overlap_comm expects true or false, found '1'"},
      {"zero_optimization: {stage3_param_persistence_threshold: -1}", "must be at least 0, found -1"},
      {"zero_optimization: {offload_optimizer: cpu}", "zero_optimization.offload_optimizer is a block of keys"},
      {"zero_optimization: {offload_optimizer: {device: gpu}}",
       "zero_optimization.offload_optimizer.device must be none or cpu, found 'gpu'; did you mean cpu?"},
      {"zero_optimization: {offload_optimiser: {device: cpu}}", "did you mean 'zero_optimization.offload_optimizer'?"},
      {"bf16: true", "bf16 is a block of keys, found 'true'"},
      {"bf16: {enabled: often}", "bf16.enabled expects true, false or auto, found 'often'"},
      {"bf16: {enabled: null}", "bf16.enabled expects true, false or auto, found nothing"},
      {"bf16: {enabled: false}\nbfloat16: {enabled: true}",
       "c.yaml:2:1: bfloat16 is another name of bf16, which is given too; remove one"},
      {"fp16: {loss_scale: -1}", "fp16.loss_scale must be at least 0"},
      {"fp16: {initial_scale_power: 127}", "fp16.initial_scale_power must be at least 0 and at most 126"},
      {"fp16: {loss_scale_window: 0}", "fp16.loss_scale_window must be at least 1"},
      {"fp16: {hysteresis: 0}", "fp16.hysteresis must be at least 1"},
      {"fp16: {consecutive_hysteresis: 2}", "fp16.consecutive_hysteresis expects true or false"},
      {"fp16: {min_loss_scale: 0}", "fp16.min_loss_scale must be more than 0"},
      {"optimizer: {type: Adam}\ntrain: {best: {split: val}}", "needs data.validation"},
      {"optimizer: {type: RMSprp}", "did you mean RMSprop?"},
      {"scheduler: {type: StepLr}", "did you mean StepLR?"},
      {"optimizer: {type: Adam}\nscheduler: {type: StepLR}", "scheduler.params.step_size must be given"},
      {"optimizer: {type: Adam}\nscheduler: {type: OneCycle, params: {cycle_max_lr: 1}}",
       "c.yaml:2:19: scheduler.params.cycle_min_lr must be given"},
      {"optimizer: {type: Adam}\nscheduler: {type: OneCycle, params: {cycle_min_lr: 1}}",
       "scheduler.params.cycle_max_lr must be given"},
      {"optimizer: {type: Lamb, params: {min_coeff: 2, max_coeff: 1}}",
       "optimizer.params.min_coeff must be at most max_coeff"},
      {"optimizer: {type: Lamb, params: {eps: 0}}", "optimizer.params.eps must be more than 0"},
      {"optimizer: {type: LARS, params: {nesterov: true}}", "optimizer.params.nesterov needs a momentum above 0"},
      {"optimizer: {type: Muon, params: {ns_coefficients: [1, 2]}}",
       "optimizer.params.ns_coefficients are three numbers"},
      {"optimizer: {type: Muon, params: {ns_coefficients: 1}}",
       "optimizer.params.ns_coefficients expects a list of numbers"},
      {"optimizer: {type: Muon, params: {ns_steps: 100}}",
       "optimizer.params.ns_steps must be at least 1 and at most 99"},
      {"optimizer: {type: Adagrad, params: {initial_accumulator_value: 1}}",
       "initial_accumulator_value 1 is not supported"},
      {"optimizer: {type: Lyon}", "did you mean Lion?"},
      {"optimizer: {type: Adam}\nscheduler: {type: MultiStepLR}", "scheduler.params.milestones must be given"},
      {"optimizer: {type: Adam}\nscheduler: {type: MultiStepLR, params: {milestones: [5, 3]}}",
       "scheduler.params.milestones must be in ascending order"},
      {"optimizer: {type: Adam}\nscheduler: {type: MultiStepLR, params: {milestones: [1.5]}}", "whole numbers"},
      {"scheduler: {type: MultiStepLR, params: {milestones: []}}", "expects a list of numbers, found"},
      {"optimizer: {type: Adam}\nscheduler: {type: ExponentialLR}", "scheduler.params.gamma must be given"},
      {"optimizer: {type: Adam}\nscheduler: {type: CosineAnnealingWarmRestarts}", "scheduler.params.T_0 must be given"},
      {"scheduler: {type: CosineAnealingLR}", "did you mean CosineAnnealingLR?"},
      {"scheduler: {type: OneCycle, params: {cycle_max_mom: 1}}", "cycle_max_mom must be at least 0 and less than 1"},
      {"scheduler: {type: OneCycle, params: {cycle_first_step_size: 0}}", "cycle_first_step_size must be at least 1"},
      {"optimizer: {type: Adam, groups: [{pattern: 'head.*'}]}", "optimizer.groups[0] (pattern head.*) matches no"},
      {"optimizer: {type: Adam, groups: [{lr_scale: 2}]}", "a group needs a pattern or dimensions"},
      {"optimizer: {type: Adam, groups: [{patern: x}]}",
       "unknown key 'optimizer.groups.patern'; a group takes pattern"},
      {"optimizer: {type: Adam}\ntrain: {early_stopping: {patience: 3}}", "train.best.split val or test"},
  };
  for (const auto& [text, part] : cases) EXPECT_PART(error(text), part);
  EXPECT_EQ(load(kAdam + "train: {epochs: 1e1}").train.epochs, 10);
}

TEST_F(ConfigTest, AGpuMayBeNamedByItsNumber) {
  EXPECT_EQ(load(kAdam + "device: cuda:12").device, "cuda:12");
  EXPECT_EQ(load(kAdam + "device: cuda").device, "cuda");
}

TEST_F(ConfigTest, WhatIsNotBuiltIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"fp16: {enabled: true}\nbf16: {enabled: true}", "bfloat16 and fp16 modes cannot be simultaneously enabled"},
      {"fp16: {min_loss_scale: 9, enabled: true, initial_scale_power: 3}", "fp16.min_loss_scale is above the first"},
      {"bf16: {bf16_master_weights_and_grads: true}", "bf16.bf16_master_weights_and_grads true is not supported"},
      {"bfloat16: {bf16_optimizer_states: true}", "bf16.bf16_optimizer_states true is not supported"},
      {"fp16: {fp16_master_weights_and_grads: true}", "fp16.fp16_master_weights_and_grads true is not supported"},
      {"device: \"cuda:\"", "device must be auto, cpu, cuda or cuda:N, found 'cuda:'"},
      {"device: cuda:1x", "device must be auto, cpu, cuda or cuda:N, found 'cuda:1x'"},
      {"device: cpu:1", "device must be auto, cpu, cuda or cuda:N, found 'cpu:1'"},
      {"data: {augment: [rotate]}", "data.augment rotate is not supported"},
      {"optimizer: {type: onebitlamb, params: {max_coeff: 10}}",
       "optimizer.type onebitlamb is not supported by this version; use SGD, Adam, AdamW, RMSprop, Adagrad, Lion, "
       "Lamb, "
       "LARS or Muon"},
      {"scheduler: {type: CyclicLR}",
       "scheduler.type CyclicLR is not supported by this version; use WarmupLR, WarmupDecayLR, WarmupCosineLR, "
       "OneCycle, "
       "LRRangeTest, ConstantLR, StepLR, MultiStepLR, ExponentialLR, LinearLR, PolynomialLR, CosineAnnealingLR or "
       "CosineAnnealingWarmRestarts"},
      {"cpu: {threads: 2}", "cpu.threads 2 is not supported by this version; use 1"},
      {"communication_data_type: int8",
       "communication_data_type: Invalid communication_data_type. Supported data types: ['fp16', 'bf16', 'fp32']. Got: "
       "int8"},
      {"optimizer: {type: SGD, params: {dampening: 0.1}}",
       "optimizer.params.dampening 0.1 is not supported by this version; use 0"},
      {"wandb: {enabled: true}",
       "wandb.enabled true is not supported by this version; use false: tensorboard.enabled writes event files, which "
       "wandb sync uploads"},
      {"amp: {enabled: true}", "amp.enabled true"},
      {"zero_optimization: {offload_optimizer: {device: nvme}}",
       "zero_optimization.offload_optimizer.device nvme is not supported by this version; use none or cpu"},
      {"zero_optimization: {stage: 3, offload_param: {device: cpu}}",
       "zero_optimization.offload_param.device cpu is not supported by this version; use none"},
      {"zero_optimization: {offload_param: {device: nvme}}", "offload_param.device nvme is not supported"},
      {"zero_optimization: {cpu_offload_param: true}",
       "zero_optimization.offload_param.device cpu is not supported by this version; use none: parameters stay on the "
       "device"},
      {"zero_optimization: {offload_optimizer: {device: cpu, ratio: 0.3}}",
       "use 1: Partial offloading only supported for ZeRO Stage 3."},
      {"zero_optimization: {cpu_offload: true, offload_optimizer: {device: cpu}}",
       "Cannot provide deprecated parameter 'cpu_offload' and replacing parameter 'offload_optimizer' together"},
      {"zero_optimization: {max_live_parameters: 1, stage3_max_live_parameters: 2}",
       "max_live_parameters is another name of stage3_max_live_parameters, which is given too; remove one"},
      {"zero_optimization: {offload_optimizer: {devise: cpu}}",
       "did you mean 'zero_optimization.offload_optimizer.device"},
      {"comms_logger: {enable: true}", "unknown key 'comms_logger.enable'"},
      {"checkpoint: {tag_validation: sometimes}",
       "Checkpoint config contains invalid tag_validation value, expecting one of ['WARN', 'IGNORE', 'FAIL']"},
      {"data_types: {grad_accum_dtype: int8}", "data_types.grad_accum_dtype int8 is not supported"},
      {"zero_optimization: {zero_quantized_gradients: true}", "zero_quantized_gradients true is not supported"},
      {"compression_training: {a: 1}", "compression_training {a: 1} is not supported by this version; use {}"},
      {"optimizer: {type: Adam, params: {amsgrad: true}}", "optimizer.params.amsgrad true"},
      {"optimizer: {type: Adam, params: {max_grad_norm: 1}}",
       "'max_grad_norm' is not supported as an optimizer parameter, please switch to using the deepspeed parameter "
       "'gradient_clipping'"},
  };
  for (const auto& [text, part] : cases) {
    const bool has_optimizer = std::string(text).rfind("optimizer", 0) == 0;
    const std::string message = error((has_optimizer ? "\n" : kAdam) + text);
    EXPECT_PART(message, part);
    EXPECT_EQ(message.rfind("c.yaml:2:", 0), 0u) << message;
  }
}

TEST_F(ConfigTest, AModelTakesItsOwnKeys) {
  const Config given = load(kAdam + "model: {name: resnet50, stem: imagenet, width: 32, zero_init_residual: true}\n");
  EXPECT_EQ(given.model.resnet.stem, Stem::imagenet);
  EXPECT_EQ(given.model.resnet.width, 32);
  EXPECT_TRUE(given.model.resnet.zero_init_residual);
  EXPECT_PART(to_yaml(given), "model:\n  name: resnet50\n  stem: imagenet\n  width: 32\n  zero_init_residual: true\n");
  EXPECT_EQ(load(kAdam, {"model.width=16", "model.name=resnet18"}).model.resnet.width, 16);
  EXPECT_EQ(load(kAdam + "model: {name: resnet18}").model.resnet.stem, Stem::automatic);
  EXPECT_EQ(to_yaml(load(kAdam)).find("stem"), std::string::npos);
  EXPECT_FALSE(given == load(kAdam + "model: {name: resnet50, stem: cifar, width: 32, zero_init_residual: true}\n"));
  const std::pair<const char*, const char*> refused[] = {
      {"model: {name: cnn, stem: imagenet}",
       "c.yaml:2:26: model.stem is no key of the model cnn; resnet18, resnet34, resnet50, resnet101 or resnet152 take "
       "it"},
      {"model: {width: 3}", "model.width is no key of the model cnn"},
      {"model: {name: resnet18, stem: large}", "model.stem must be auto, cifar or imagenet, found 'large'"},
      {"model: {name: resnet18, width: 0}", "model.width must be at least 1 and at most 1024, found 0"},
      {"model: {name: resnet18, zero_init_residual: 1}", "model.zero_init_residual expects true or false, found '1'"},
      {"model: {name: resnet18, steam: cifar}", "unknown key 'model.steam'; did you mean 'model.stem'?"},
  };
  for (const auto& [text, part] : refused) EXPECT_PART(error(kAdam + text), part);
  EXPECT_PART(error(kAdam, {"model.stem=cifar"}), "--set model.stem=cifar: model.stem is no key of the model cnn");
  EXPECT_PART(error(kAdam + "model: {name: vit, heads: 5}"),
              "c.yaml:2:27: model.heads must divide model.dim, the width that they share: 192 is no multiple of 5");
  EXPECT_PART(error(kAdam + "model: {name: cct, dim: 6}"), "model.heads must divide model.dim");
  EXPECT_PART(error(kAdam + "model: {name: vit, fff_trees: 2}"),
              "model.ffn is mlp, which has no trees: use fff, or leave out the keys that begin with fff_");
  EXPECT_PART(error(kAdam + "model: {name: vit_tiny, ffn: fff, fff_depth: 9, fff_fanout: 4}"),
              "c.yaml:2:46: model.fff_depth makes more than 16384 units");
  EXPECT_EQ(load(kAdam + "model: {name: vit_tiny, ffn: fff, fff_fanout: 4, fff_depth: 3}")
                .model.vit_tiny.feed_forward.fff.fanout,
            4);
  EXPECT_EQ(load(kAdam + "model: {name: vit_tiny, dim: 100, dropout: 0.25}").model.vit_tiny.dropout, 0.25);
  // Groups of parameters are looked at in a graph, whose images the patch must fit.
  load("model: {name: vit, patch: 48}\noptimizer: {type: Adam, groups: [{pattern: pos_embed, weight_decay: 0}]}\n");
}

TEST_F(ConfigTest, BatchNormOverRanksIsRefusedByName) {
  for (const char* key : {"model.sync_bn", "model.sync_batchnorm", "train.sync_bn", "train.sync_batchnorm", "sync_bn",
                          "sync_batchnorm"}) {
    const std::string message = error(kAdam, {str(key, "=true")});
    EXPECT_PART(message,
                str(key, " true is not supported by this version; use false: batch norm's statistics are those"));
    EXPECT_PART(message, "of a micro-batch");
    load(kAdam, {str(key, "=false")});
  }
  EXPECT_PART(error({.files = {kShipped / "default.yaml"}, .flags = {.sync_bn = true}}), "--sync-bn: model.sync_bn");
}

TEST_F(ConfigTest, ADeepSpeedFileAloneIsNotMixedWithTheDefaults) {
  const auto file =
      write("sgd.json", R"({"train_batch_size": 32, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}})");
  const Config alone =
      load_config({.files = {kShipped / "default.yaml", file}, .begins_with_default = true}, &warnings_);
  EXPECT_TRUE(std::holds_alternative<optim::Constant>(alone.scheduler));
  EXPECT_FALSE(alone.batch.micro);
  EXPECT_EQ(alone.model.name, "cnn");
  const Config laid_over = load_config({.files = {kShipped / "default.yaml", file}}, &warnings_);
  EXPECT_FALSE(std::holds_alternative<optim::Constant>(laid_over.scheduler));
  EXPECT_EQ(laid_over.batch.micro, 4);
}

TEST_F(ConfigTest, HarmlessDeepSpeedKeysAreNotedOnce) {
  const Config config = load_config({.files = {write("ds_config.json", R"({
        "train_batch_size": 4, "steps_per_print": 2000, // DeepSpeed's tutorial
        "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7, "torch_adam": false}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001, "warmup_num_steps": 1000}},
        "gradient_clipping": 1.0, "prescale_gradients": false, "communication_data_type": null,
        "bf16": {"enabled": false}, "dump_state": true,
        "fp16": {"enabled": false, "loss_scale": 0, "initial_scale_power": 15},
        "wall_clock_breakdown": false, "_read_the_docs": "https://www.deepspeed.ai", "x-note": [1, {"y": 2}],
        "comms_logger": {"enabled": true, "verbose": false}, "tensorboard": {"enabled": false, "output_path": "logs"},
        "zero_optimization": {"stage": 0, "allgather_bucket_size": 5e7, "overlap_comm": true, "cpu_offload": false,
          "contiguous_gradients": true, "offload_optimizer": {"device": "none", "pin_memory": true}, "offload_param": null},
      })")}},
                                    &warnings_);
  EXPECT_EQ(config.gradient_clipping, 1);
  EXPECT_EQ(config.batch.train, 4);
  EXPECT_EQ(config.steps_per_print, 2000);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(config.zero_optimization.allgather_bucket_size, 50000000);
  EXPECT_EQ(config.zero_optimization.overlap_comm, true);
  EXPECT_EQ(config.fp16.initial_scale_power, 15);
  EXPECT_TRUE(config.dump_state && config.comms_logger.enabled);
  for (const char* key :
       {"zero_optimization.contiguous_gradients", "zero_optimization.offload_optimizer.pin_memory", "torch_adam"})
    EXPECT_PART(warnings_[0], key);
  for (const char* key : {"overlap_comm", "allgather_bucket_size", "initial_scale_power"})
    EXPECT_EQ(warnings_[0].find(key), std::string::npos) << warnings_[0];
  EXPECT_EQ(warnings_[0].find("_read_the_docs"), std::string::npos);
  EXPECT_EQ(warnings_[0].find("enabled: false"), std::string::npos);
}

TEST_F(ConfigTest, ReportsAsDeepSpeedWritesThem) {
  const Config config = load_config({.files = {write("ds_config.json", R"({"optimizer": {"type": "Adam"},
        "memory_breakdown": true, "comms_logger": {"enabled": true, "prof_all": false, "prof_ops": ["all_reduce"]},
        "flops_profiler": {"enabled": true, "recompute_fwd_factor": 0.0, "profile_step": 3, "module_depth": "auto",
                           "top_modules": 2, "detailed": false, "output_file": null}})")}},
                                    &warnings_);
  EXPECT_TRUE(config.memory_breakdown && config.flops_profiler.enabled && config.comms_logger.enabled);
  EXPECT_FALSE(config.comms_logger.prof_all || config.comms_logger.verbose || config.flops_profiler.detailed);
  EXPECT_EQ(config.comms_logger.prof_ops, std::vector<std::string>{"all_reduce"});
  EXPECT_EQ(config.flops_profiler.profile_step, 3);
  EXPECT_EQ(config.flops_profiler.module_depth, -1);
  EXPECT_EQ(config.flops_profiler.top_modules, 2);
  EXPECT_EQ(config.flops_profiler.output_file, "");
  const Config again = load_config_text(to_yaml(config), "yaml");
  EXPECT_TRUE(again == config) << to_yaml(config);
  EXPECT_PART(error(kAdam + std::string("comms_logger: {enabled: true, prof_ops: all_reduce}")),
              "comms_logger.prof_ops expects a list of at most 64 names");
  EXPECT_PART(error(kAdam + std::string("flops_profiler: {enabled: true, module_depth: -2}")),
              "flops_profiler.module_depth must be at least -1");
}

TEST_F(ConfigTest, ZeroKeysAsDeepSpeedWritesThem) {
  const Config none = load(kAdam);
  EXPECT_EQ(none.zero_optimization.stage, 0);
  EXPECT_FALSE(none.zero_optimization.reduce_bucket_size);
  EXPECT_FALSE(none.zero_optimization.allgather_bucket_size);
  EXPECT_FALSE(none.zero_optimization.overlap_comm);
  EXPECT_EQ(none.zero_optimization.stage3_param_persistence_threshold, 0);
  EXPECT_EQ(none.zero_optimization.offload_optimizer_device, OffloadDevice::none);

  const Config all = load(kAdam +
                          "zero_optimization: {stage: 3, reduce_bucket_size: 5e8, allgather_bucket_size: 200000000, "
                          "overlap_comm: false, stage3_param_persistence_threshold: 1e5, "
                          "stage3_prefetch_bucket_size: 5e7, stage3_max_live_parameters: 1e9, reduce_scatter: true, "
                          "offload_optimizer: {device: cpu, pin_memory: true, buffer_count: 4}, "
                          "offload_param: {device: none}}\n");
  EXPECT_EQ(all.zero_optimization.stage, 3);
  EXPECT_EQ(all.zero_optimization.reduce_bucket_size, 500000000);
  EXPECT_EQ(all.zero_optimization.allgather_bucket_size, 200000000);
  EXPECT_EQ(all.zero_optimization.overlap_comm, false);
  EXPECT_EQ(all.zero_optimization.stage3_param_persistence_threshold, 100000);
  EXPECT_EQ(all.zero_optimization.offload_optimizer_device, OffloadDevice::cpu);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "zero_optimization.stage3_prefetch_bucket_size");

  EXPECT_FALSE(load(kAdam + "zero_optimization: {overlap_comm: null}").zero_optimization.overlap_comm);
  EXPECT_FALSE(load(kAdam + "zero_optimization: {overlap_comm: true}", {"zero_optimization.overlap_comm="})
                   .zero_optimization.overlap_comm);
  EXPECT_EQ(load(kAdam, {"zero_optimization.stage=2"}).zero_optimization.stage, 2);
  EXPECT_EQ(load(kAdam, {"zero_optimization.offload_optimizer.device=cpu"}).zero_optimization.offload_optimizer_device,
            OffloadDevice::cpu);
}

TEST_F(ConfigTest, DeepSpeedsOtherAndFormerNames) {
  const Config config = load(kAdam +
                             "zero_optimization: {stage: 3, cpu_offload: true, param_persistence_threshold: 9, "
                             "stage3_gather_fp16_weights_on_model_save: true}\n");
  EXPECT_EQ(config.zero_optimization.offload_optimizer_device, OffloadDevice::cpu);
  EXPECT_EQ(config.zero_optimization.stage3_param_persistence_threshold, 9);
  ASSERT_EQ(warnings_.size(), 3u);
  EXPECT_EQ(warnings_[0].substr(warnings_[0].find("c.yaml")),
            "c.yaml:2:31: Config parameter cpu_offload is deprecated use offload_optimizer instead");
  EXPECT_PART(warnings_[1],
              "Config parameter stage3_gather_fp16_weights_on_model_save is deprecated use "
              "stage3_gather_16bit_weights_on_model_save instead");
  EXPECT_EQ(warnings_[2],
            "ignored, as they change nothing here: zero_optimization.stage3_gather_16bit_weights_on_model_save");
  EXPECT_EQ(load(kAdam + "zero_optimization: true").zero_optimization.stage, 1);
  EXPECT_EQ(load(kAdam + "zero_optimization: false").zero_optimization.stage, 0);
  EXPECT_EQ(load(kAdam, {"zero_optimization.param_persistence_threshold=3"})
                .zero_optimization.stage3_param_persistence_threshold,
            3);
  EXPECT_EQ(load(kAdam + "zero_optimization: {cpu_offload: false}").zero_optimization.offload_optimizer_device,
            OffloadDevice::none);
}

TEST_F(ConfigTest, AutoIsAsIfDeepSpeedsKeyWereAbsent) {
  const Config config = load(kAdam +
                             "zero_optimization: {stage: auto, overlap_comm: auto, reduce_scatter: auto, "
                             "offload_optimizer: {device: auto, nvme_path: auto}}\nfp16: {enabled: auto}\n"
                             "tensorboard: {enabled: auto, job_name: auto}\nwandb: {enabled: auto}\n");
  EXPECT_EQ(config.zero_optimization.stage, 0);
  EXPECT_FALSE(config.zero_optimization.overlap_comm);
  EXPECT_EQ(config.zero_optimization.offload_optimizer_device, OffloadDevice::none);
  EXPECT_FALSE(config.fp16.enabled);
  EXPECT_FALSE(config.tensorboard.enabled);
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_PART(warnings_[0], "\"auto\" is taken as what follows from other keys, or the default: fp16.enabled false");
  EXPECT_PART(error(kAdam + "prescale_gradients: auto"), "prescale_gradients expects true or false");
}

TEST_F(ConfigTest, GradientsOnTheirWay) {
  const Config config = load(kAdam +
                             "prescale_gradients: true\ncommunication_data_type: FP16\ndata_types: "
                             "{grad_accum_dtype: bf16}\ncommunication: {reproducible: false}\n");
  EXPECT_TRUE(config.prescale_gradients);
  EXPECT_EQ(config.communication_data_type, CommDataType::fp16);
  EXPECT_EQ(warnings_, std::vector<std::string>{"ignored, as they change nothing here: data_types.grad_accum_dtype"});
  EXPECT_EQ(load(kAdam + "gradient_predivide_factor: 2.5").gradient_predivide_factor, 2.5);
  EXPECT_EQ(load(kAdam + "communication_data_type: null").communication_data_type, CommDataType::fp32);
  EXPECT_PART(error(kAdam + "gradient_predivide_factor: 0"), "gradient_predivide_factor must be more than 0");
  warnings_.clear();
  load(kAdam + "prescale_gradients: true\nzero_optimization: {stage: 2}\n");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "pre-scale gradients is not yet supported with ZeRO-2 with reduce scatter enabled");
}

TEST_F(ConfigTest, ElasticityTakesTheBatchOver) {
  const std::string keys = "max_train_batch_size: 2000, micro_batch_sizes: [2, 4, 6], version: 0.1";
  const Config config = load(kAdam + "elasticity: {enabled: true, " + keys + ", min_time: 20}\n");
  EXPECT_EQ(batch_for(config.batch, 7), (BatchSizes{1680, 6, 40}));
  const std::string yaml = to_yaml(config, {.ranks = 4});
  EXPECT_PART(yaml, "# train_batch_size: 1680  (follows on 4 ranks)\n");
  EXPECT_PART(yaml, "  micro_batch_sizes: [2, 4, 6]\n");
  EXPECT_TRUE(load(yaml) == config);
  EXPECT_TRUE(load(kAdam + "elasticity: {enabled: false, " + keys + "}\n") == load(kAdam));
  const std::string batch = "train_batch_size: 8\n";
  EXPECT_EQ(
      batch_for(load(kAdam + batch + "elasticity: {enabled: true, ignore_non_elastic_batch_info: true, " + keys + "}\n")
                    .batch,
                2)
          .train,
      1680);
  const std::pair<std::string, std::string> cases[] = {
      {"enabled: true", "c.yaml:2:23: Elasticity config missing max_train_batch_size"},
      {"enabled: true, max_train_batch_size: 9", "Elasticity config missing micro_batch_sizes"},
      {"enabled: true, " + keys + ", model_parallel_size: 2", "elasticity.model_parallel_size 2 is not supported"},
      {"enabled: true, max_train_batch_size: 9, micro_batch_sizes: [2, 0]",
       "Elasticity expected micro_batch_sizes to only contain positive integers, instead contains: [2, 0]"},
      {"enabled: true, max_train_batch_size: 9, micro_batch_sizes: 2", "instead contains: 2"},
      {"enabled: true, max_train_batch_size: 9, micro_batch_sizes: [2, 16], version: 0.1",
       "All micro batches must be less than or equal to max_acceptable_batch_size: 9"},
      {"enabled: true, max_train_batch_size: 9, micro_batch_sizes: [2], version: 0.3",
       "Attempting to run elasticity version 0.3 but runtime only supports up to 0.2"},
      {"enabled: true, max_train_batch_size: 9, micro_batch_sizes: [2], version: 0.15",
       "Unable to find elastic logic for version: 0.15"},
      {"enabled: true, max_train_batch_size: 9, micro_batch_sizes: [2], min_gpus: 3, max_gpus: 2",
       "Elasticity min_gpus cannot be greater than max_gpus, given min_gpus: 3, max_gpus: 2"},
  };
  for (const auto& [text, part] : cases) EXPECT_PART(error(kAdam + "elasticity: {" + text + "}\n"), part);
  EXPECT_PART(error(kAdam + batch + "elasticity: {enabled: true, " + keys + "}\n"),
              "c.yaml:2:19: One or more batch related parameters were found in your ds_config");
}

TEST_F(ConfigTest, AnEmptyFileIsNamed) {
  const auto empty = write("ds_config.json", " \n");
  load_config({.files = {write("c.yaml", kAdam), empty}}, &warnings_);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "ds_config.json is empty: it says nothing");
}

TEST_F(ConfigTest, TensorBoardAsDeepSpeedWritesIt) {
  EXPECT_FALSE(load(kAdam).tensorboard.enabled);
  const Config given = load(kAdam + "tensorboard: {enabled: true, output_path: logs, job_name: first}\n");
  EXPECT_TRUE(given.tensorboard.enabled);
  EXPECT_EQ(given.tensorboard.output_path, "logs");
  EXPECT_EQ(given.tensorboard.job_name, "first");
  EXPECT_TRUE(warnings_.empty());
  EXPECT_PART(to_yaml(given), "tensorboard:\n  enabled: true\n  output_path: logs\n  job_name: first\n");
  // Where they are off the other keys do not count.
  EXPECT_TRUE(load(kAdam + "tensorboard: {enabled: false, output_path: logs}\n") == load(kAdam));
  EXPECT_PART(error(kAdam + "tensorboard: {enable: true}"), "did you mean 'tensorboard.enabled'");
  EXPECT_PART(error(kAdam + "tensorboard: {job_name: a/b}"), "c.yaml:2:25: tensorboard.job_name names one folder");
}

TEST_F(ConfigTest, CsvMonitorAsDeepSpeedWritesIt) {
  EXPECT_FALSE(load(kAdam).csv_monitor.enabled);
  EXPECT_FALSE(load(kAdam).wall_clock_breakdown);
  const Config given = load(kAdam +
                            "csv_monitor: {enabled: true, output_path: logs, job_name: first}\n"
                            "wall_clock_breakdown: true\n");
  EXPECT_TRUE(given.csv_monitor.enabled);
  EXPECT_TRUE(given.wall_clock_breakdown);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_PART(to_yaml(given), "csv_monitor:\n  enabled: true\n  output_path: logs\n  job_name: first\n");
  EXPECT_TRUE(load(kAdam + "csv_monitor: {enabled: false, output_path: logs}\n") == load(kAdam));
  EXPECT_TRUE(load(kAdam + "csv_monitor: {enabled: auto, job_name: auto}\n") == load(kAdam));
  EXPECT_PART(error(kAdam + "csv_monitor: {job_name: a/b}"), "c.yaml:2:25: csv_monitor.job_name names one folder");
}

TEST_F(ConfigTest, OneCycleSaysWhatItOverrides) {
  const std::string cycle = "scheduler: {type: OneCycle, params: {cycle_min_lr: 1e-4, cycle_max_lr: 4e-3}}\n";
  load(cycle + "optimizer: {type: AdamW, params: {lr: 1e-4, betas: [0.8, 0.999]}}\n");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0],
              "cycle_momentum overrides optimizer.params.betas, as in DeepSpeed: the first goes from 0.9");
  EXPECT_PART(warnings_[0], "to 0.8 and back, the second is 0.99");
  warnings_.clear();
  load(cycle + "optimizer: {type: AdamW, params: {lr: 1e-3}}\n", {"scheduler.params.cycle_momentum=false"});
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "cycle_min_lr 1e-04 overrides optimizer.params.lr 0.001, as in DeepSpeed");
  warnings_.clear();
  load(cycle + "optimizer: {type: SGD, params: {lr: 1e-4, momentum: 0.9}}\n");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "cycle_momentum changes nothing, as in DeepSpeed: SGD has no betas");
  warnings_.clear();
  const Config open = load(
      "optimizer: {type: AdamW, params: {lr: 0.5}}\nscheduler: {type: OneCycle, params: {cycle_min_lr: auto, "
      "cycle_max_lr: 1}}\n");
  EXPECT_EQ(std::get<optim::OneCycle>(open.scheduler).cycle_min_lr, 0.5);
}

TEST_F(ConfigTest, Bf16MayBeLeftToTheMachine) {
  const std::string base = kAdam + "train_batch_size: 16\n";
  const Config open = load(base + "bf16: {enabled: auto}\n"), on = load(base + "bf16: {enabled: true}\n"),
               off = load(base);
  EXPECT_FALSE(open.bf16.enabled.has_value());
  EXPECT_FALSE(load(kAdam, {"bf16.enabled=auto"}).bf16.enabled.has_value());
  EXPECT_EQ(load(kAdam + "bf16: {enabled: auto}\n", {"bf16.enabled=true"}).bf16.enabled, true);
  // A later file's auto says no more than an earlier file; one that is asked for by name does.
  const auto both = [&](const std::string& first, const std::string& second, std::vector<std::string> sets = {}) {
    return load_config({.files = {write("first.yaml", base + "bf16: {enabled: " + first + "}\n"),
                                  write("second.json", "{\"bf16\": {\"enabled\": " + second + "}}")},
                        .sets = std::move(sets)},
                       &warnings_)
        .bf16.enabled;
  };
  for (const bool earlier : {true, false}) {
    EXPECT_EQ(both(earlier ? "true" : "false", "\"auto\""), earlier);
    EXPECT_EQ(both("auto", earlier ? "true" : "false"), earlier);
  }
  EXPECT_EQ(both("true", "\"auto\"", {"bf16.enabled=auto"}), std::nullopt);
  EXPECT_PART(to_yaml(open), "bf16:\n  enabled: auto\n");
  EXPECT_PART(to_yaml(off), "bf16:\n  enabled: false\n");
  EXPECT_FALSE(open == off);
  // A run that continues keeps what it began with; one that asks for another is refused.
  for (const Config* saved : {&on, &off}) {
    Config now = open;
    settle_like(now, *saved);
    EXPECT_TRUE(resume_difference(*saved, 1, now, 1).forbidden.empty());
    EXPECT_EQ(now.bf16.enabled, saved->bf16.enabled);
  }
  Config now = off;
  settle_like(now, on);
  EXPECT_EQ(
      resume_difference(on, 1, now, 1).forbidden,
      std::vector<std::string>{"bf16.enabled: true saved, false now (not given: --set bf16.enabled=true restores it)"});
}

TEST_F(ConfigTest, PrecisionBlocks) {
  EXPECT_EQ(load(kAdam).bf16.enabled, false);
  EXPECT_EQ(load(kAdam + "bf16: {enabled: true}").bf16.enabled, true);
  EXPECT_EQ(load(kAdam, {"bf16.enabled=true"}).bf16.enabled, true);
  EXPECT_EQ(load(kAdam, {"bfloat16.enabled=true"}).bf16.enabled, true);
  EXPECT_EQ(load(kAdam, {"bfloat16={enabled: true}"}).bf16.enabled, true);
  const Config alias = load(kAdam + "bfloat16: {enabled: true, immediate_grad_update: false}\n");
  EXPECT_EQ(alias.bf16.enabled, true);
  EXPECT_EQ(alias.origins.count("bf16.enabled"), 1u);
  EXPECT_EQ(load(kAdam + "bfloat16: {enabled: true}\n", {"bf16.enabled=false"}).bf16.enabled, false);

  const Config off = load(kAdam +
                          "fp16: {enabled: false, auto_cast: true, loss_scale: 128, initial_scale_power: 15, "
                          "loss_scale_window: 500, hysteresis: 3, consecutive_hysteresis: true, min_loss_scale: 2}\n");
  EXPECT_EQ(off.fp16.loss_scale, 128);
  EXPECT_EQ(off.fp16.initial_scale_power, 15);
  EXPECT_EQ(off.fp16.loss_scale_window, 500);
  EXPECT_EQ(off.fp16.hysteresis, 3);
  EXPECT_TRUE(off.fp16.consecutive_hysteresis);
  EXPECT_EQ(off.fp16.min_loss_scale, 2);
  EXPECT_TRUE(off == load(kAdam));  // they do not count while fp16 is off
  Config on = off;
  on.fp16.enabled = true;
  EXPECT_PART(to_yaml(on), "  initial_scale_power: 15\n");
}

TEST_F(ConfigTest, SupervisionKeys) {
  const Config config = load(kAdam +
                             "communication: {reproducible: false, heartbeat_s: 0.5, timeout_s: 90, check_interval: "
                             "10}\ncheckpoint: {asynchronous: false}\n");
  EXPECT_FALSE(config.communication.reproducible);
  EXPECT_EQ(config.communication.supervision.heartbeat_s, 0.5);
  EXPECT_EQ(config.communication.supervision.timeout_s, 90);
  EXPECT_EQ(config.communication.check_interval, 10);
  EXPECT_FALSE(config.checkpoint.asynchronous);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ConfigTest, LaterSourcesWinAndBlocksAreReplacedWhole) {
  const auto yaml = write("c.yaml",
                          "seed: 1\ngradient_clipping: 1.5\ntrain: {epochs: 5, max_steps: 9}\noptimizer: {type: SGD, "
                          "params: {lr: 0.5, momentum: 0.9}}\n"
                          "scheduler: {type: WarmupLR, params: {warmup_num_steps: 7, warmup_max_lr: 0.5}}\n");
  const auto json = write("ds.json",
                          "{\"gradient_clipping\": \"auto\", \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": "
                          "0.25}}, \"scheduler\": {}, "
                          "\"train\": {\"epochs\": 6}}");
  const Config config =
      load_config({.files = {yaml, json},
                   .flags = {.epochs = 7},
                   .overrides = {{"output", "no", "--output no"}},
                   .sets = {"data.augment=[flip, {random_crop: {padding: 2}}]", "_note=1", "data={path: '0777'}"}},
                  &warnings_);
  EXPECT_EQ(config.seed, 1);
  EXPECT_EQ(config.train.epochs, 7);
  EXPECT_EQ(config.train.max_steps, 9);
  EXPECT_EQ(config.gradient_clipping, 1.5);  // "auto" leaves it open
  EXPECT_EQ(optimizer<optim::Sgd>(config).lr, 0.25);
  EXPECT_EQ(optimizer<optim::Sgd>(config).momentum, 0);
  EXPECT_EQ(optim::type_of(config.scheduler), "");
  EXPECT_EQ(config.output, "no");
  EXPECT_EQ(config.data.path, "0777");
  ASSERT_EQ(config.data.augment.size(), 2u);
  EXPECT_EQ(std::get<Flip>(config.data.augment[0]).p, 0.5);
  EXPECT_EQ(std::get<RandomCrop>(config.data.augment[1]).padding, 2);
  EXPECT_EQ(config.origins.at("train.epochs"), "-e 7");
  EXPECT_EQ(config.origins.at("optimizer.params.lr"), json.string() + ":1:77");
  EXPECT_EQ(config.origins.at("seed"), yaml.string() + ":1:7");
  EXPECT_FALSE(config.origins.contains("device"));
}

TEST_F(ConfigTest, SetIsTypedAndATypeClearsItsParams) {
  const std::string sgd = "optimizer: {type: SGD, params: {lr: 0.5, momentum: 0.9}}\n";
  const Config config = load(sgd, {"optimizer.params.weight_decay=0.1", "optimizer.type=AdamW"});
  EXPECT_EQ(optimizer<optim::AdamW>(config).lr, 1e-3);
  EXPECT_EQ(optimizer<optim::AdamW>(config).weight_decay, 0.1);
  EXPECT_EQ(load(sgd, {"output=2024"}).output, "2024");
  EXPECT_EQ(load(sgd, {"output=\"a b\""}).output, "a b");
  EXPECT_EQ(optimizer<optim::Adam>(load(sgd, {"optimizer={type: Adam, params: {betas: [0.1, 0.2]}}"})).betas,
            (std::array{0.1, 0.2}));
  EXPECT_EQ(optim::type_of(load(sgd + "scheduler: {type: WarmupLR}", {"scheduler={}"}).scheduler), "");
  EXPECT_PART(error(sgd, {"seed=x"}), "--set seed=x: seed expects a whole number");
  EXPECT_PART(error(sgd, {"seed"}), "write --set key=value");
  EXPECT_PART(error(sgd, {"seed="}), "found nothing");
  EXPECT_PART(error(sgd, {"seed=[1"}), "--set seed=[1: is not valid YAML");
  EXPECT_PART(error(sgd, {"=3"}), "write --set key=value");
  EXPECT_PART(error(sgd, {"train=3"}), "is a block of keys");
  EXPECT_PART(error(sgd, {".=3"}), "unknown key");
}

TEST_F(ConfigTest, TutorialFlagsKeepWorking) {
  const auto with = [&](const TutorialFlags& flags) {
    return load_config({.files = {kShipped / "default.yaml"}, .flags = flags}, &warnings_);
  };
  const auto refused = [&](const TutorialFlags& flags) {
    return error({.files = {kShipped / "default.yaml"}, .flags = flags});
  };
  EXPECT_EQ(with({.batch_size = 32}).batch, (BatchKeys{32, 4, std::nullopt}));
  EXPECT_EQ(with({.batch_size = 2}).batch, (BatchKeys{2, 2, std::nullopt}));
  EXPECT_EQ(with({.epochs = 30}).train.epochs, 30);
  EXPECT_EQ(with({.log_interval = 100}).train.log_interval, 100);
  EXPECT_EQ(with({.stage = 0, .dtype = "fp32"}).origins.at("bf16.enabled"), "--dtype fp32");
  EXPECT_EQ(with({.backend = "mpi"}).communication.backend, CommBackend::mpi);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(with({.backend = "gloo"}).communication.backend, CommBackend::automatic);
  with({.local_rank = 0});
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_PART(warnings_[1], "--local_rank is ignored");
  for (const int64_t stage : {0, 1, 2, 3}) EXPECT_EQ(with({.stage = stage}).zero_optimization.stage, stage);
  EXPECT_EQ(with({.dtype = "bf16"}).bf16.enabled, true);
  EXPECT_EQ(refused({.stage = 4}), "--stage 4: zero_optimization.stage must be at least 0 and at most 3, found 4");
  EXPECT_TRUE(with({.dtype = "fp16"}).fp16.enabled);
  EXPECT_PART(refused({.dtype = "int8"}), "--dtype must be fp32, bf16 or fp16");
  EXPECT_EQ(with({.backend = "nccl"}).communication.backend, CommBackend::nccl);
  EXPECT_EQ(with({.with_cuda = true}).device, "cuda");
  EXPECT_EQ(with({.use_ema = true}).train.ema.decay, 0.999);
  // Where an average is configured already, that is what --use_ema asks for.
  const auto averaged = [&](const std::string& decay) {
    return load_config({.files = {write("ema.yaml", kAdam + "train: {ema: {decay: " + decay + "}}\n")},
                        .flags = {.use_ema = true}},
                       &warnings_)
        .train.ema.decay;
  };
  EXPECT_EQ(averaged("0.9"), 0.9);
  EXPECT_EQ(averaged("0"), 0.999);
  EXPECT_EQ(averaged("0.0"), 0.999);
  EXPECT_PART(
      error({.files = {write("ema.yaml", kAdam + "train: {ema: {decay: much}}\n")}, .flags = {.use_ema = true}}),
      "train.ema.decay");
}

TEST_F(ConfigTest, AnAverageOfTheWeightsHasItsKeys) {
  const auto given = load(kAdam + "train: {ema: {decay: 0.99, start: 20, evaluate: false}}\n").train.ema;
  EXPECT_EQ(given.decay, 0.99);
  EXPECT_EQ(given.start, 20);
  EXPECT_FALSE(given.evaluate);
  EXPECT_TRUE(load(kAdam).train.ema.evaluate);
  EXPECT_PART(error(kAdam + "train: {ema: {decay: 1}}"), "train.ema.decay must be at least 0 and less than 1, found 1");
  EXPECT_PART(error(kAdam + "train: {ema: {decay: -0.1}}"), "train.ema.decay must be at least 0");
  EXPECT_PART(error(kAdam + "train: {ema: {start: -1}}"), "train.ema.start must be at least 0");
  EXPECT_PART(error(kAdam + "train: {ema: 0.9}"), "train.ema");
  EXPECT_PART(error(kAdam + "train: {ema: {dekay: 0.9}}"), "did you mean 'train.ema.decay'?");
  // Without a decay the other keys mean nothing.
  EXPECT_TRUE(load(kAdam + "train: {ema: {start: 3, evaluate: false}}") == load(kAdam));
  EXPECT_EQ(to_yaml(load(kAdam)).find("evaluate"), std::string::npos);
}

TEST_F(ConfigTest, ASchedulerThatOverridesTheRateIsSaid) {
  load("optimizer: {type: Adam, params: {lr: 0.01}}\nscheduler: {type: WarmupLR}\n");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "warmup_max_lr 0.001 overrides optimizer.params.lr 0.01");
  warnings_.clear();
  load("optimizer: {type: Lion, params: {lr: 0.01}}\nscheduler: {type: LRRangeTest}\n");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "lr_range_test_min_lr 0.001 overrides optimizer.params.lr 0.01");
  warnings_.clear();
  load("optimizer: {type: Lamb, params: {lr: 0.01}}\nscheduler: {type: WarmupDecayLR}\n");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "warmup_max_lr 0.001 overrides optimizer.params.lr 0.01");
}

TEST_F(ConfigTest, PrintedConfigurationLoadsToTheSame) {
  const std::vector<std::string> texts = {
      "optimizer: {type: SGD, params: {lr: 0.1, momentum: 0.9, nesterov: true, no_decay: vectors}}\n",
      "output: \"a \\\"b\\\" # c\"\nseed: 9223372036854775807\ntrain_batch_size: 64\noptimizer: {type: AdamW, params: "
      "{eps: 3e-9, lr: 0.1}}\n"
      "data: {augment: [{random_crop: {padding: 2}}, {flip: {p: 0.3333333333333333}}], validation: 100, normalize: "
      "{mean: [0.1, 0.2, 0.3]}}\n"
      "train: {best: {split: val, metric: loss}, early_stopping: {patience: 2}, label_smoothing: 0.1, ema: {decay: "
      "0.9999, start: 7, evaluate: false}}\n"
      "scheduler: {type: WarmupLR, params: {warmup_max_lr: 0.1, warmup_type: linear}}\ngradient_clipping: 1e-3\n",
      kAdam +
          "bf16: {enabled: true}\nzero_optimization: {stage: 3, reduce_bucket_size: 5e8, allgather_bucket_size: 7, "
          "overlap_comm: false, stage3_param_persistence_threshold: 9, offload_optimizer: {device: cpu}}\n"
          "communication: {reproducible: false, heartbeat_s: 0.1, timeout_s: 1e6, check_interval: 5}\n"
          "checkpoint: {asynchronous: false}\n",
      "optimizer: {type: RMSprop, params: {alpha: 0.9, momentum: 0.5, centered: true}, groups: [{pattern: '*.b?as', "
      "lr_scale: 0.1}, {dimensions: 2, weight_decay: 0.5}, {pattern: conv1.weight, dimensions: 4}]}\n"
      "scheduler: {type: StepLR, params: {step_size: 7, gamma: 0.5}}\n",
      "optimizer: {type: AdamW}\nscheduler: {type: WarmupCosineLR, params: {total_num_steps: 128, cos_min_ratio: "
      "0.5}}\n"
      "train: {recompute: blocks}\ndata: {train: a/b, val: 'c d'}\n",
      "optimizer: {type: AdamW}\nscheduler: {type: WarmupCosineLR, params: {total_num_steps: auto}}\n",
      "output: 'no'\noptimizer: {type: Adam, params: {adam_w_mode: false}}\ntrain_micro_batch_size_per_gpu: "
      "4\ngradient_accumulation_steps: 2\n",
      kAdam + "model: {name: resnet34, stem: cifar, width: 5, zero_init_residual: true}\n",
      kAdam + "model: {name: resnet18}\n",
      "optimizer: {type: Adam, groups: [{pattern: '*.linear_in.*', rows: 3, lr_scale: 0.5}]}\nmodel: {name: vit_tiny, "
      "ffn: fff, ffn_pairs: true, fff_depth: 3, fff_fanout: 4, fff_trees: 2, fff_dense: 8}\n",
      "optimizer: {type: AdamW}\nscheduler: {type: OneCycle, params: {cycle_min_lr: 0, cycle_max_lr: 0.5, "
      "cycle_first_step_size: 7, cycle_momentum: false}}\nbf16: {enabled: auto}\n",
      "optimizer: {type: Lamb, params: {min_coeff: 0.1, bias_correction: false}}\n"
      "scheduler: {type: WarmupDecayLR, params: {total_num_steps: 9, warmup_num_steps: 3}}\n",
      "optimizer: {type: LARS, params: {trust_coeff: 0.02, always_adapt: true}}\n"
      "scheduler: {type: MultiStepLR, params: {milestones: [3, 5], gamma: 0.5}}\n",
      "optimizer: {type: Muon, params: {ns_coefficients: [2, -1.5, 0.5], adamw_lr: 0.5, adjust_lr_fn: "
      "match_rms_adamw}}\n"
      "scheduler: {type: CosineAnnealingLR, params: {T_max: auto, eta_min: 0.1}}\n",
      "optimizer: {type: Muon}\nscheduler: {type: CosineAnnealingWarmRestarts, params: {T_0: 4, T_mult: 2}}\n",
      "optimizer: {type: Lion, params: {betas: [0.5, 0.6]}}\nscheduler: {type: ExponentialLR, params: {gamma: 0.9}}\n",
      "optimizer: {type: Adagrad, params: {lr_decay: 0.1}}\nscheduler: {type: LRRangeTest}\n",
      "optimizer: {type: Adam, params: {bias_correction: false}}\nscheduler: {type: PolynomialLR}\n",
  };
  for (const std::string& text : texts) {
    const Config config = load(text);
    for (const bool origins : {false, true}) {
      const std::string printed = to_yaml(config, {.origins = origins});
      EXPECT_TRUE(load_config_text(printed, "state.json") == config) << printed;
      EXPECT_TRUE(load(printed) == config) << printed;
    }
  }
  EXPECT_FALSE(load(texts[0]) == load(texts[1]));
  EXPECT_FALSE(load(texts[0]) == load(texts[0], {"optimizer.params.lr=0.2"}));
}

TEST_F(ConfigTest, PrintShowsOriginsAndDerivedBatch) {
  const Config config = load("train_batch_size: 8\noptimizer: {type: Adam, params: {weight_decay: 0.1}}\n", {"seed=7"});
  const std::string text = to_yaml(config, {.origins = true, .ranks = 2});
  EXPECT_PART(text, "# --set seed=7\n");
  EXPECT_PART(text, "# default\n");
  EXPECT_PART(text, "c.yaml:1:19");
  EXPECT_PART(text, "AdamW");
  EXPECT_PART(text, "# train_micro_batch_size_per_gpu: 4  (follows on 2 ranks)\n");
  EXPECT_PART(text, "# gradient_accumulation_steps: 1  (follows on 2 ranks)\n");
  EXPECT_PART(text, "scheduler: {}");
  EXPECT_PART(text, "\noptimizer:\n  type: Adam");
  EXPECT_PART(text, "\n  params:\n    lr: 0.001");
}

TEST_F(ConfigTest, ResumeAllowsOnlyWhatTheContractAllows) {
  const std::string base = "train_batch_size: 16\ntrain_micro_batch_size_per_gpu: 4\noptimizer: {type: Adam}\n";
  const Config saved = load(base);
  const Config free = load(base, {"output=x",
                                  "device=cpu",
                                  "train.epochs=9",
                                  "train.recompute=blocks",
                                  "data.train=a",
                                  "data.val=b",
                                  "train.max_steps=5",
                                  "train.log_interval=1",
                                  "train.save_interval=1",
                                  "train.eval_interval=1",
                                  "steps_per_print=1",
                                  "data.path=y",
                                  "data.on_corrupt=skip",
                                  "data.workers=3",
                                  "cpu.autotune=true",
                                  "cuda.autotune=true",
                                  "cuda.record=false",
                                  "cuda.path=z",
                                  "communication.backend=mpi",
                                  "checkpoint.keep_last=1",
                                  "checkpoint.asynchronous=false",
                                  "communication.reproducible=false",
                                  "communication.heartbeat_s=1",
                                  "communication.timeout_s=2",
                                  "communication.check_interval=3",
                                  "communication_data_type=bf16",
                                  "zero_optimization.stage=3",
                                  "zero_optimization.reduce_bucket_size=1000",
                                  "zero_optimization.allgather_bucket_size=1000",
                                  "zero_optimization.overlap_comm=false",
                                  "zero_optimization.stage3_param_persistence_threshold=10",
                                  "zero_optimization.offload_optimizer.device=cpu"});
  EXPECT_TRUE(resume_difference(saved, 1, free, 4).forbidden.empty());
  EXPECT_TRUE(resume_difference(saved, 1, free, 4).warnings.empty());  // the same bits: accumulation follows

  const auto forbidden = [&](const std::string& set) {
    const auto difference = resume_difference(saved, 1, load(base, {set}), 1);
    return difference.forbidden.empty() ? std::string() : difference.forbidden[0];
  };
  EXPECT_EQ(forbidden("seed=43"), "seed: 42 saved, 43 now");
  Config longer = load(base, {"scheduler.type=WarmupCosineLR"}), shorter = longer;
  optim::fit_run(longer.scheduler, 40);
  optim::fit_run(shorter.scheduler, 20);
  EXPECT_EQ(resume_difference(shorter, 1, longer, 1).forbidden,
            std::vector<std::string>{"scheduler.params.total_num_steps: 20 saved, 40 now (not given: --set "
                                     "scheduler.params.total_num_steps=20 restores it)"});
  const Config told = load(base, {"scheduler.type=WarmupCosineLR", "scheduler.params.total_num_steps=20"});
  EXPECT_TRUE(resume_difference(shorter, 1, told, 1).forbidden.empty());
  EXPECT_EQ(forbidden("train_batch_size=32"), "train_batch_size: 16 saved, 32 now");
  EXPECT_EQ(forbidden("optimizer.params.lr=0.1"), "optimizer.params.lr: 0.001 saved, 0.1 now");
  EXPECT_EQ(forbidden("scheduler.type=WarmupLR"), "scheduler.params.warmup_max_lr: absent saved, 0.001 now");
  for (const char* set :
       {"data.shuffle=false", "data.augment=[flip]", "model.name=linear", "train.label_smoothing=0.1",
        "gradient_clipping=1", "bf16.enabled=true", "train.eval_batch_size=1", "data.dataset=synthetic"})
    EXPECT_NE(forbidden(set), "") << set;

  // Accumulation that is given follows the ranks too; with other sizes it is not what differs.
  const Config two = load(base, {"gradient_accumulation_steps=2"}), one = load(base, {"gradient_accumulation_steps=4"});
  EXPECT_TRUE(resume_difference(two, 2, one, 1).forbidden.empty());
  EXPECT_TRUE(resume_difference(two, 2, one, 1).warnings.empty());

  const Config derived = load("train_batch_size: 16\noptimizer: {type: Adam}\n");
  const auto moved = resume_difference(derived, 1, derived, 2);
  EXPECT_TRUE(moved.forbidden.empty());
  ASSERT_EQ(moved.warnings.size(), 1u);
  EXPECT_PART(moved.warnings[0], "train_micro_batch_size_per_gpu: 16 on the saved run's 1 rank, 8 on 2 now");
}

TEST_F(ConfigTest, FilesAreFoundWhereTheContractLooks) {
  fs::create_directories(folder_ / "source");
  fs::create_directories(folder_ / "share");
  write("source/a.yaml", "");
  write("share/a.yaml", "");
  write("share/b.yaml", "");
  const std::vector<fs::path> folders = {folder_ / "source", folder_ / "share"};
  EXPECT_EQ(find_config("a.yaml", folders), folder_ / "source/a.yaml");
  EXPECT_EQ(find_config("b.yaml", folders), folder_ / "share/b.yaml");
  EXPECT_EQ(find_config((folder_ / "share/a.yaml").string(), folders), folder_ / "share/a.yaml");
  for (const char* name : {"missing.yaml", "", "/missing/c.yaml"}) {
    try {
      find_config(name, folders, "--deepspeed_config");
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_TRUE(std::string(error.what()).starts_with("--deepspeed_config '")) << error.what();
      const bool searched = std::string(name) == "missing.yaml";
      EXPECT_EQ(std::string(error.what()).find((folder_ / "share").string()) != std::string::npos, searched)
          << error.what();
    }
  }
  EXPECT_EQ(installed_configs("/usr/local/bin/cifar-train"), "/usr/local/share/cifar-train/configs");
}

TEST_F(ConfigTest, GarbageFilesGiveOneLine) {
  const auto of_file = [&](const fs::path& path) { return error(ConfigSources{.files = {path}}); };
  EXPECT_PART(of_file(folder_), "is a folder");
  EXPECT_PART(of_file(folder_ / "absent.yaml"), "cannot be read");
  EXPECT_PART(of_file(write("big.yaml", std::string(2 << 20, '#'))), "larger than 1 MiB");
  EXPECT_PART(of_file(write("zero.yaml", std::string("seed: 1\nou\0tput: x\n", 19))), "zero.yaml:2:3: is not text");
  EXPECT_PART(of_file(write("latin.yaml", "output: caf\xe9\n")), "latin.yaml:1:12: is not text");
  EXPECT_PART(of_file(write("list.yaml", "- 1\n- 2\n")), "list.yaml:1:1: a configuration is");
  EXPECT_PART(of_file(write("word.yaml", "hello")), "a configuration is");
  EXPECT_PART(of_file(write("list.json", "[1]")), "a configuration is");
  EXPECT_PART(of_file(write("cut.json", "{\"seed\": ")), "cut.json:1:10: is not valid JSON");
  EXPECT_PART(of_file(write("dup.json", "{\"seed\": 1,\n \"seed\": 2}")),
              "dup.json:2:2: Duplicate keys in DeepSpeed config: ['seed']; the first is in line 1");
  EXPECT_PART(of_file(write("dups.json", "{\"a\": 1, \"b\": {\"c\": 1}, \"a\": 2, \"b\": 3, \"a\": 4}")),
              "Duplicate keys in DeepSpeed config: ['a', 'b']");
  // Braces make it JSON whatever it is called, so that comments are understood.
  optimizer<optim::Sgd>(load_config(
      {.files = {write("ds_config", "\xef\xbb\xbf{ // c\n\"optimizer\": {\"type\": \"SGD\"}}")}}, &warnings_));
}

}  // namespace
}  // namespace ct
