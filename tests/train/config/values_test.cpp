#include "train/config/config_test.h"
#include "train/config/field.h"
#include "train/config/print.h"
#include "train/config/resume.h"
#include "train/config/schema.h"

namespace ct {
namespace {

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
                                          {"trian.early_stopping.metric", "train.early_stopping.metric"},
                                          {"csv_moniter.output_path", "csv_monitor.output_path"},
                                          {"train_micro_batch_size", "train_micro_batch_size_per_gpu"},
                                          {"micro_batch_per_gpu", "train_micro_batch_size_per_gpu"},
                                          {"batch_size", "train_batch_size"},
                                          {"gradient_accumulation", "gradient_accumulation_steps"},
                                          {"warmup_steps", "scheduler.params.warmup_num_steps"},
                                          {"zero_optimization.reduce_bucket", "zero_optimization.reduce_bucket_size"},
                                          {"max_grad_norm", "gradient_clipping"},
                                          {"learning_rate", "optimizer.params.lr"},
                                          {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
                                          {"max_steps", "train.max_steps"},
                                          {"eval_batch_size", "train.eval_batch_size"},
                                          {"Train_Batch_Size", "train_batch_size"},
                                          {"per_gpu_train_batch_size", "train_micro_batch_size_per_gpu"},
                                          {"train.batch_size", "train_batch_size"},
                                          {"data.batch_size", "train_batch_size"},
                                          {"model.type", "model.name"},
                                          {"num_epochs", "train.epochs"},
                                          {"max_epochs", "train.epochs"},
                                          {"n_epochs", "train.epochs"},
                                          {"num_train_epochs", "train.epochs"},
                                          {"epochs", "train.epochs"},
                                          {"output_dir", "output"},
                                          {"grad_accum_steps", "gradient_accumulation_steps"},
                                          {"accumulate_grad_batches", "gradient_accumulation_steps"},
                                          {"global_batch_size", "train_batch_size"},
                                          {"clip_grad", "gradient_clipping"},
                                          {"grad_clip", "gradient_clipping"},
                                          {"learningrate", "optimizer.params.lr"},
                                          {"model_name", "model.name"},
                                          {"data_path", "data.path"},
                                          {"mixed_precision", "bf16.enabled"},
                                          {"optimizer.name", "optimizer.type"},
                                          {"scheduler.name", "scheduler.type"},
                                          {"zero_stage", "zero_optimization.stage"},
                                          {"warmup_epochs", "scheduler.params.warmup_num_steps"},
                                          {"save_steps", "train.save_interval"},
                                          {"image_size", "data.size"},
                                          {"num_gpus", "--ranks"}})
    EXPECT_PART(error(kAdam, {slip + "=1"}), str("unknown key '", slip, "'; did you mean '", meant, "'?"));
  EXPECT_EQ(error("lr: 0.1"), "c.yaml:1:1: unknown key 'lr'; did you mean 'optimizer.params.lr'?");
  EXPECT_EQ(error("zzzzzz: 0.1"), "c.yaml:1:1: unknown key 'zzzzzz'");
  EXPECT_EQ(error("zero_optimization: {stge: 0}"),
            "c.yaml:1:21: unknown key 'zero_optimization.stge'; did you mean 'zero_optimization.stage'?");
  EXPECT_PART(error("optimizer: {type: Adam, params: {momentum: 0.9}}"),
              "c.yaml:1:44: unknown key 'optimizer.params.momentum'; Adam takes lr");
  EXPECT_EQ(error("train.epochs: 3"),
            "c.yaml:1:1: unknown key 'train.epochs'; write it in its block, train: {epochs: ...}");
  EXPECT_PART(error(kAdam, {"train.epoch=3"}),
              "--set train.epoch=3: unknown key 'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_PART(error(kAdam, {"train.epochs.x=3"}), "unknown key");
  EXPECT_PART(error("\"a\\nb\": 1"), "unknown key 'a\\nb'");
}

TEST_F(ConfigTest, TypesAndRangesAreChecked) {
  const std::pair<std::string, std::string> cases[] = {
      {"seed: x", "c.yaml:1:7: seed expects a whole number, found 'x'"},
      {"seed: 1.5", "whole number, found '1.5'"},
      {"gradient_clipping: 1e-310", "gradient_clipping is too close to zero, found '1e-310': write 0 or a larger"},
      {"data: {normalize: {std: [1e-320]}}", "data.normalize.std is too close to zero, found '1e-320'"},
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
      {"zero_optimization: {reduce_bucket_size: -1}",
       "zero_optimization.reduce_bucket_size must be at least 0, found -1"},
      {"zero_optimization: {reduce_bucket_size: 1.5}", "whole number, found '1.5'"},
      {"zero_optimization: {reduce_bucket_size: 1e20}", "whole number, found '1e"},
      {"zero_optimization: {reduce_bucket_size: some}", "whole number, found 'some'"},
      {"zero_optimization: {allgather_bucket_size: -5e8}",
       "zero_optimization.allgather_bucket_size must be at least 0"},
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
      {"fp16: {loss_scale: -1}", "fp16.loss_scale must be at least 0"},
      {"fp16: {initial_scale_power: 127}", "fp16.initial_scale_power must be at least 0 and at most 126"},
      {"fp16: {loss_scale_window: 0}", "fp16.loss_scale_window must be at least 1"},
      {"fp16: {hysteresis: 0}", "fp16.hysteresis must be at least 1"},
      {"fp16: {consecutive_hysteresis: 2}", "fp16.consecutive_hysteresis expects true or false"},
      {"fp16: {min_loss_scale: 0}", "fp16.min_loss_scale must be more than 0"},
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
       "optimizer.params.ns_coefficients must be three numbers"},
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
      {"optimizer: {type: Adam}\nscheduler: {type: MultiStepLR, params: {milestones: [1.5]}}",
       "expects a whole number, found"},
      {"scheduler: {type: MultiStepLR, params: {milestones: []}}", "expects a list of optimizer steps"},
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

TEST_F(ConfigTest, UnimplementedFeaturesAreRefusedByName) {
  const std::pair<const char*, std::string> cases[] = {
      {"fp16: {enabled: true}\nbf16: {enabled: true}", "bfloat16 and fp16 modes cannot be simultaneously enabled"},
      {"fp16: {min_loss_scale: 9, enabled: true, initial_scale_power: 3}", "fp16.min_loss_scale is above the first"},
      {"device: \"cuda:\"", "device must be auto, cpu, cuda or cuda:N, found 'cuda:'"},
      {"device: cuda:1x", "device must be auto, cpu, cuda or cuda:N, found 'cuda:1x'"},
      {"device: cpu:1", "device must be auto, cpu, cuda or cuda:N, found 'cpu:1'"},
      {"data: {augment: [rotate]}", "found 'rotate'"},
      {"optimizer: {type: onebitlamb, params: {max_coeff: 10}}",
       str("optimizer.type must be ", join_choices(optim::types<optim::Optimizer>()), ", found 'onebitlamb'")},
      {"scheduler: {type: CyclicLR}",
       str("scheduler.type must be ", join_choices(optim::types<optim::LrSchedule>()), ", found 'CyclicLR'")},
      {"cpu: {threads: 2}", "cpu.threads 2 is not supported by this version; use 1"},
      {"communication_data_type: int8",
       "communication_data_type: Invalid communication_data_type. Supported data types: ['fp16', 'bf16', 'fp32']. Got: "
       "int8"},
      {"optimizer: {type: SGD, params: {dampening: 0.1}}",
       "optimizer.params.dampening 0.1 is not supported by this version; use 0"},
      {"zero_optimization: {offload_optimizer: {device: nvme}}",
       "zero_optimization.offload_optimizer.device must be none or cpu, found 'nvme'"},
      {"zero_optimization: {stage: 3, offload_param: {device: cpu}}\ndevice: cuda:1",
       "zero_optimization.offload_param.device: a GPU's parameters stay there"},
      {"zero_optimization: {offload_param: {device: nvme}}", "offload_param.device must be none or cpu, found 'nvme'"},
      {"zero_optimization: {offload_optimizer: {devise: cpu}}",
       "did you mean 'zero_optimization.offload_optimizer.device"},
      {"comms_logger: {enable: true}", "unknown key 'comms_logger.enable'"},
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
       "c.yaml:2:26: model.stem is not a key of the model cnn; resnet18, resnet34, resnet50, resnet101 or resnet152 "
       "take "
       "it"},
      {"model: {width: 3}", "model.width is not a key of the model cnn"},
      {"model: {name: resnet18, stem: large}", "model.stem must be auto, cifar or imagenet, found 'large'"},
      {"model: {name: resnet18, width: 0}", "model.width must be at least 1 and at most 1024, found 0"},
      {"model: {name: resnet18, zero_init_residual: 1}", "model.zero_init_residual expects true or false, found '1'"},
      {"model: {name: resnet18, steam: cifar}", "unknown key 'model.steam'; did you mean 'model.stem'?"},
  };
  for (const auto& [text, part] : refused) EXPECT_PART(error(kAdam + text), part);
  EXPECT_PART(error(kAdam + "zero_optimization: {allgather_bucket_size: 7}"), "must be a multiple of 2");
  EXPECT_PART(error(kAdam, {"model.stem=cifar"}), "--set model.stem=cifar: model.stem is not a key of the model cnn");
  EXPECT_PART(error(kAdam + "model: {name: vit, heads: 5}"),
              "c.yaml:2:27: model.heads must divide model.dim, which the heads share: 192 is not a multiple of 5");
  EXPECT_PART(error(kAdam + "model: {name: cct, dim: 6}"), "model.heads must divide model.dim");
  EXPECT_PART(error(kAdam + "model: {name: vit, fff_trees: 2}"),
              "c.yaml:2:31: model.fff_trees is a key of model.ffn: fff, and model.ffn is mlp");
  EXPECT_PART(error(kAdam + "model: {name: vit_tiny, ffn: fff, fff_depth: 9, fff_fanout: 4}"),
              "c.yaml:2:46: model.fff_depth makes more than 16384 units");
  EXPECT_EQ(load(kAdam + "model: {name: vit_tiny, ffn: fff, fff_fanout: 4, fff_depth: 3}")
                .model.vit_tiny.feed_forward.fff.fanout,
            4);
  EXPECT_EQ(load(kAdam + "model: {name: vit_tiny, dim: 100, dropout: 0.25}").model.vit_tiny.dropout, 0.25);
  // Groups of parameters are looked at in a graph, whose images the patch must fit.
  load("model: {name: vit, patch: 48}\noptimizer: {type: Adam, groups: [{pattern: pos_embed, weight_decay: 0}]}\n");
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

}  // namespace
}  // namespace ct
