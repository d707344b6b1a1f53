#include "train/config/config_test.h"
#include "train/config/print.h"

namespace ct {
namespace {

TEST_F(ConfigTest, BatchNormOverRanksIsRefusedByName) {
  for (const char* key : {"model.sync_bn", "model.sync_batchnorm", "train.sync_bn", "train.sync_batchnorm", "sync_bn",
                          "sync_batchnorm"}) {
    const std::string message = error(kAdam, {str(key, "=true")});
    EXPECT_PART(message,
                str(key, " true is not supported by this version; use false: batch norm's statistics are those"));
    EXPECT_PART(message, "of a micro-batch");
    load(kAdam, {str(key, "=false")});
  }
}

TEST_F(ConfigTest, DeepSpeedsKeysThatAreNotBuiltAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"bf16: {bf16_master_weights_and_grads: true}", "bf16.bf16_master_weights_and_grads true is not supported"},
      {"bfloat16: {bf16_optimizer_states: true}", "bf16.bf16_optimizer_states true is not supported"},
      {"fp16: {fp16_master_weights_and_grads: true}", "fp16.fp16_master_weights_and_grads true is not supported"},
      {"autotuning: {enabled: true}",
       "autotuning.enabled true is not supported by this version; use false: the program has no such feature"},
      {"amp: {enabled: true}", "amp.enabled true"},
      {"zero_optimization: {cpu_offload_param: true}\ndevice: cuda", "a GPU's parameters stay there"},
      {"zero_optimization: {offload_optimizer: {device: cpu, ratio: 0.3}}",
       "use 1: Partial offloading only supported for ZeRO Stage 3."},
      {"zero_optimization: {cpu_offload: true, offload_optimizer: {device: cpu}}",
       "Cannot provide deprecated parameter 'cpu_offload' and replacing parameter 'offload_optimizer' together"},
      {"zero_optimization: {max_live_parameters: 1, stage3_max_live_parameters: 2}",
       "max_live_parameters is another name of stage3_max_live_parameters, which is given too; remove one"},
      {"checkpoint: {tag_validation: sometimes}",
       "Checkpoint config contains invalid tag_validation value, expecting one of ['WARN', 'IGNORE', 'FAIL']"},
      {"data_types: {grad_accum_dtype: int8}", "data_types.grad_accum_dtype int8 is not supported"},
      {"zero_optimization: {zero_quantized_gradients: true}", "zero_quantized_gradients true is not supported"},
      {"compression_training: {a: 1}", "compression_training is not supported by this version; use {}"},
      {"optimizer: {type: Adam, params: {amsgrad: true}}", "optimizer.params.amsgrad true"},
  };
  for (const auto& [text, part] : cases) {
    const bool has_optimizer = std::string(text).starts_with("optimizer");
    const std::string message = error((has_optimizer ? "\n" : kAdam) + text);
    EXPECT_PART(message, part);
    EXPECT_EQ(message.rfind("c.yaml:2:", 0), 0u) << message;
  }
  EXPECT_PART(error("bf16: {enabled: false}\nbfloat16: {enabled: true}"),
              "c.yaml:2:1: bfloat16 is another name of bf16, which is given too; remove one");
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
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "fp16.auto_cast");
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
            "ignored, because they have no effect here: zero_optimization.stage3_gather_16bit_weights_on_model_save");
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
  EXPECT_PART(warnings_[0], "\"auto\" follows from other keys, or is the default: fp16.enabled false");
  EXPECT_PART(error(kAdam + "prescale_gradients: auto"), "prescale_gradients expects true or false");
}

TEST_F(ConfigTest, GradientsOnTheirWay) {
  const Config config = load(kAdam +
                             "prescale_gradients: true\ncommunication_data_type: FP16\ndata_types: "
                             "{grad_accum_dtype: bf16}\ncommunication: {reproducible: false}\n");
  EXPECT_TRUE(config.prescale_gradients);
  EXPECT_EQ(config.communication_data_type, CommDataType::fp16);
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"ignored, because they have no effect here: data_types.grad_accum_dtype"});
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
  EXPECT_PART(error(kAdam + "tensorboard: {job_name: a/b}"), "c.yaml:2:25: tensorboard.job_name must name one folder");
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
  EXPECT_PART(error(kAdam + "csv_monitor: {job_name: a/b}"), "c.yaml:2:25: csv_monitor.job_name must name one folder");
}

TEST_F(ConfigTest, OneCycleSaysWhatItOverrides) {
  const std::string cycle = "scheduler: {type: OneCycle, params: {cycle_min_lr: 1e-4, cycle_max_lr: 4e-3}}\n";
  load(cycle + "optimizer: {type: AdamW, params: {lr: 1e-4, betas: [0.8, 0.999]}}\n");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0],
              "cycle_momentum overrides optimizer.params.betas, as in DeepSpeed: the first falls from 0.9");
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

}  // namespace
}  // namespace ct
