#include "train/config/load.h"

#include <set>

#include "model/models.h"
#include "train/config/config_test.h"
#include "train/config/print.h"
#include "train/config/resume.h"
#include "train/config/schema.h"

namespace ct {
namespace {

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
  expected.data.validation = portion_of("10%");
  expected.train.best.split = BestSplit::val;
  EXPECT_TRUE(shipped == expected) << to_yaml(shipped) << to_yaml(expected);
  // All keys are shown, so that the file is the vocabulary; those without a place in it are listed here.
  for (const ConfigField& field : effective_fields(shipped)) {
    const std::set<std::string> hidden = {"data.sampler",
                                          "train.max_bad_steps",
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
  expected.data.validation = {};
  expected.train.best.split = BestSplit::last;
  EXPECT_TRUE(linear == expected);
  const Config resnet = load_config({.files = {kShipped / "resnet18.yaml"}}, &warnings_);
  EXPECT_EQ(resnet.model.name, "resnet18");
  EXPECT_EQ(resnet.data.augment.size(), 2u);
  EXPECT_EQ(fitting_ranks(resnet.batch, 9), (std::vector<int64_t>{1, 2, 4}));
  const Config resnet18 = load_config({.files = {kShipped / "resnet18_imagenet.yaml"}}, &warnings_);
  EXPECT_EQ(fitting_ranks(resnet18.batch, 9), (std::vector<int64_t>{1, 2, 4, 8}));
  const Config resnet50 = load_config({.files = {kShipped / "resnet50_imagenet.yaml"}}, &warnings_);
  EXPECT_EQ(fitting_ranks(resnet50.batch, 9), (std::vector<int64_t>{1, 2, 4}));
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

TEST_F(ConfigTest, ShippedTransformersLoad) {
  const Config ours = load_config({.files = {kShipped / "vit_tiny.yaml"}}, &warnings_);
  EXPECT_EQ(fitting_ranks(ours.batch, 9), (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_FALSE(ours.bf16.enabled.has_value());
  EXPECT_EQ(ours.data.validation.amount, 5000);
  EXPECT_EQ(ours.train.best.split, BestSplit::val);
  EXPECT_EQ(ours.gradient_clipping, 5);
  const Config seeds = load_config({.files = {kShipped / "vit_tiny_fp16.yaml"}}, &warnings_);
  EXPECT_TRUE(seeds.fp16.enabled);
  EXPECT_TRUE(seeds.data.validation.empty());
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
  const Config quick = load_config({.files = {kShipped / "vit_tiny_2cores.yaml"}}, &warnings_);
  EXPECT_EQ(fitting_ranks(quick.batch, 9), (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(quick.model.name, "vit_tiny");
  EXPECT_EQ(optimizer<optim::Muon>(quick).lr, 0.02);
  EXPECT_EQ(warnings_.size(), 2u);
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

TEST_F(ConfigTest, AnEmptyFileIsNamed) {
  const auto empty = write("ds_config.json", " \n");
  load_config({.files = {write("c.yaml", kAdam), empty}}, &warnings_);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_PART(warnings_[0], "ds_config.json is empty and has no effect");
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
                   .flags =
                       [](const Merge&, std::vector<std::string>*) {
                         return std::vector<ConfigOverride>{{"train.epochs", "7", "-e 7"}};
                       },
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
          "bf16: {enabled: true}\nzero_optimization: {stage: 3, reduce_bucket_size: 5e8, allgather_bucket_size: 8, "
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
  EXPECT_PART(text, "\noptimizer:\n  # with decoupled");
  EXPECT_PART(text, "\n  type: Adam");
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
  optim::fit_run(longer.scheduler, {40});
  optim::fit_run(shorter.scheduler, {20});
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

TEST_F(ConfigTest, GarbageFilesGiveOneLine) {
  const auto of_file = [&](const fs::path& path) { return error(ConfigSources{.files = {path}}); };
  EXPECT_PART(of_file(folder_), "is a folder");
  EXPECT_PART(of_file(folder_ / "absent.yaml"), "cannot open");
  EXPECT_PART(of_file(write("big.yaml", std::string(2 << 20, '#'))), "larger than 1 MiB");
  EXPECT_PART(of_file(write("zero.yaml", std::string("seed: 1\nou\0tput: x\n", 19))),
              "zero.yaml:2:3: is not UTF-8 text");
  EXPECT_PART(of_file(write("latin.yaml", "output: caf\xe9\n")), "latin.yaml:1:12: is not UTF-8 text");
  EXPECT_PART(of_file(write("list.yaml", "- 1\n- 2\n")), "list.yaml:1:1: a configuration is");
  EXPECT_PART(of_file(write("word.yaml", "hello")), "a configuration is");
  EXPECT_PART(of_file(write("list.json", "[1]")), "a configuration is");
}

}  // namespace
}  // namespace ct
