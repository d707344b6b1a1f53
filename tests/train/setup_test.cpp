#include "train/setup.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "comm/host/threads.h"
#include "data/made_up_set.h"
#include "plan/lower.h"
#include "train/config/load.h"

namespace ct {
namespace {

Config with_optimizer(const std::string& optimizer, const std::string& rest = "") {
  return load_config_text("train_batch_size: 4\noptimizer: " + optimizer + "\n" + rest, "test.yaml");
}

TEST(Setup, AnUpdateRuleIsWhatTheConfigurationNames) {
  const UpdateRule sgd = update_rule(with_optimizer(
      "{type: SGD, params: {lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.01}}", "gradient_clipping: 2"));
  EXPECT_EQ(std::get<optim::Sgd>(sgd.optimizer).momentum, 0.9);
  EXPECT_TRUE(std::get<optim::Sgd>(sgd.optimizer).nesterov);
  EXPECT_EQ(std::get<optim::Sgd>(sgd.optimizer).weight_decay, 0.01);
  EXPECT_EQ(sgd.clip, 2);
  EXPECT_TRUE(sgd.groups.empty());
  const UpdateRule adam = update_rule(with_optimizer(
      "{type: AdamW, params: {lr: 0.1, betas: [0.8, 0.99], eps: 1.0e-6, weight_decay: 3.0e-7, no_decay: vectors}, "
      "groups: [{pattern: \"fc*\", lr_scale: 0.5}]}"));
  EXPECT_EQ(std::get<optim::AdamW>(adam.optimizer).betas, (std::array{0.8, 0.99}));
  EXPECT_EQ(std::get<optim::AdamW>(adam.optimizer).eps, 1e-6);
  ASSERT_EQ(adam.groups.size(), 2u);  // no_decay is the last group
  EXPECT_EQ(adam.groups[0].lr_scale, 0.5);
  EXPECT_EQ(adam.groups[1].dimensions, 1);
  EXPECT_EQ(adam.groups[1].weight_decay, 0);
}

TEST(Setup, AdamIsDecoupledByDefault) {
  const auto form = [](const std::string& optimizer) {
    const UpdateRule rule = update_rule(with_optimizer(optimizer));
    return std::visit([](const auto& o) { return o.rule().form; }, rule.optimizer);
  };
  EXPECT_EQ(form("{type: Adam, params: {lr: 0.1}}"), rules::Adam::decoupled);
  EXPECT_EQ(form("{type: Adam, params: {lr: 0.1, adam_w_mode: false}}"), rules::Adam::l2);
  EXPECT_EQ(form("{type: AdamW, params: {lr: 0.1}}"), rules::Adam::decoupled);
}

TEST(Setup, AStepsRowIsTheSchedulesAndTheOptimizers) {
  const Schedule constant = step_schedule(with_optimizer("{type: SGD, params: {lr: 0.25, momentum: 0.5}}"), {9});
  EXPECT_EQ(constant(0).lr, 0.25);
  EXPECT_EQ(constant(1000).lr, 0.25);
  EXPECT_EQ(rules::coefficients_in<rules::Sgd>(constant(7).coefficients).momentum, 0.5);
  const Schedule warm = step_schedule(
      with_optimizer("{type: Adam, params: {betas: [0.8, 0.999]}}",
                     "scheduler: {type: WarmupLR, params: {warmup_min_lr: 0, warmup_max_lr: 0.5, warmup_num_steps: 10, "
                     "warmup_type: linear}}"),
      {9});
  EXPECT_EQ(warm(0).lr, 0);
  EXPECT_EQ(warm(6).lr, 0.25);
  EXPECT_EQ(warm(500).lr, 0.5);
  EXPECT_DOUBLE_EQ(rules::coefficients_in<rules::Adam>(warm(0).coefficients).bias_correction1, 0.2);
  EXPECT_DOUBLE_EQ(rules::coefficients_in<rules::Adam>(warm(0).coefficients).bias_correction2, 0.001);
}

TEST(Setup, DurationsAreInEpochsOrPartsOfTheRun) {
  const auto rates = [](const std::string& scheduler, const RunLength& run) {
    const Schedule schedule =
        step_schedule(with_optimizer("{type: SGD, params: {lr: 1}}", "scheduler: " + scheduler), run);
    std::vector<double> rates;
    for (int64_t step = 0; step < run.steps; ++step) rates.push_back(schedule(step).lr);
    return rates;
  };
  const RunLength run{12, 3};
  const auto same = [&](const std::string& duration, const std::string& steps) {
    EXPECT_EQ(rates(duration, run), rates(steps, run)) << duration;
  };
  same("{type: StepLR, params: {step_size: 2 epochs}}", "{type: StepLR, params: {step_size: 6}}");
  same("{type: StepLR, params: {step_size: 25%}}", "{type: StepLR, params: {step_size: 3}}");
  same("{type: StepLR, params: {step_size: 0.01 epochs}}", "{type: StepLR, params: {step_size: 1}}");
  same("{type: MultiStepLR, params: {milestones: [1 epoch, 1.5 epochs, 75%]}}",
       "{type: MultiStepLR, params: {milestones: [3, 5, 9]}}");
  same("{type: WarmupCosineLR, params: {warmup_num_steps: 1 epoch, total_num_steps: 50%}}",
       "{type: WarmupCosineLR, params: {warmup_num_steps: 3, total_num_steps: 6}}");
  for (const std::string bad : {"0 epochs", "-1 epoch", "5 weeks", "200%", "epochs"})
    EXPECT_THROW(rates("{type: StepLR, params: {step_size: " + bad + "}}", run), Error) << bad;
}

TEST(Setup, AScheduleMayFollowTheLengthOfTheRun) {
  const std::string cosine = "scheduler: {type: WarmupCosineLR, params: {warmup_num_steps: 2, cos_min_ratio: 0";
  const auto rate = [&](const std::string& more, int64_t run_steps, int64_t step) {
    const Config config = with_optimizer("{type: SGD, params: {lr: 0.5}}", cosine + more + "}}");
    return step_schedule(config, {run_steps})(step).lr;
  };
  for (const std::string open : {"", ", total_num_steps: auto"}) {
    EXPECT_GT(rate(open, 12, 11), 0);
    EXPECT_EQ(rate(open, 12, 12), 0);
    EXPECT_GT(rate(open, 24, 12), 0);
  }
  EXPECT_EQ(rate(", total_num_steps: 12", 24, 12), 0);  // what is given stays
}

TEST(Setup, ARunEndsByEpochsOrSteps) {
  const auto steps = [](const std::string& train) {
    return run_steps(with_optimizer("{type: SGD}", "train: {" + train + "}"), 10);
  };
  EXPECT_EQ(steps("epochs: 3"), 30);
  EXPECT_EQ(steps("epochs: 3, max_steps: 7"), 7);
  EXPECT_EQ(steps("epochs: 3, max_steps: 70"), 30);
  EXPECT_EQ(steps("epochs: 3, max_steps: 0"), 0);
  EXPECT_EQ(steps("epochs: 9223372036854775807, max_steps: 7"), 7);
  EXPECT_EQ(steps("epochs: 9223372036854775807"), StepCount::kMost / 10 * 10);
}

TEST(Setup, PixelsAreNormalisedByMeanAndDeviation) {
  Config config;
  config.data.mean = {0.5, 0.25, 0};
  config.data.std = {0.5, 0.2, 1};
  config.train.label_smoothing = 0.1;
  const InputSpec spec = input_spec(config, 4, {{3, 32, 32}, 10}, Mode::train);
  EXPECT_EQ(spec.batch, 4);
  EXPECT_EQ(spec.classes, 10);
  for (size_t c = 0; c < 3; ++c)
    for (const double pixel : {0.0, 100.0, 255.0})
      EXPECT_NEAR(pixel * spec.scale[c] + spec.shift[c], (pixel / 255 - config.data.mean[c]) / config.data.std[c],
                  1e-6);
  EXPECT_FLOAT_EQ(spec.label_smoothing, 0.1f);
  EXPECT_EQ(input_spec(config, 4, {{3, 32, 32}, 10}, Mode::evaluate).label_smoothing,
            0);  // evaluation reports the plain loss
}

TEST(Setup, AugmentationKeepsItsOrder) {
  const Config config = with_optimizer("{type: SGD, params: {lr: 0.1}}",
                                       "data: {augment: [{flip: {p: 0.25}}, {random_crop: {padding: 4}}]}");
  const std::vector<AugmentStep>& steps = config.data.augment;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(std::get<Flip>(steps[0]).p, 0.25);
  EXPECT_EQ(std::get<RandomCrop>(steps[1]).padding, 4);
}

TEST(Setup, ANormalizeAtTheEndOfTheListIsDataNormalize) {
  const Config config = with_optimizer("{type: SGD, params: {lr: 0.1}}",
                                       "data: {augment: [flip, {normalize: {mean: [0.1, 0.2, 0.3], std: [2]}}]}");
  EXPECT_EQ(config.data.augment.size(), 1u);
  EXPECT_EQ(config.data.mean, (std::vector<double>{0.1, 0.2, 0.3}));
  EXPECT_EQ(config.data.std, std::vector<double>{2});
}

TEST(Setup, EditsAndSecondLabelsAreTrainingsAlone) {
  const auto spec = [](const std::string& steps, Mode mode, bool cropped) {
    const Config config = with_optimizer("{type: SGD, params: {lr: 0.1}}", "data: {augment: [" + steps + "]}");
    return input_spec(config, 4, {.sample = {3, 32, 32}, .classes = 10, .cropped = cropped}, mode);
  };
  const std::string all =
      "flip, random_resized_crop, cutout, {color_jitter: {hue: 0.1}}, random_crop, {rand_augment: "
      "{num_ops: 3}}, mixup, cutmix, flip";
  EXPECT_EQ(spec(all, Mode::train, false).edits, 1 + 1 + 1 + 4 + 1 + 3 + 1 + 1);  // two of them moves
  EXPECT_EQ(spec(all, Mode::train, true).edits, 12);                              // the data set has cropped
  EXPECT_TRUE(spec(all, Mode::train, false).mixes_labels);
  EXPECT_EQ(spec(all, Mode::evaluate, false).edits, 0);
  EXPECT_FALSE(spec(all, Mode::evaluate, false).mixes_labels);
  EXPECT_EQ(spec("flip, random_crop, alternating_flip", Mode::train, false).edits, 0);  // augment does them
  EXPECT_FALSE(spec("cutout", Mode::train, false).mixes_labels);
}

TEST(Setup, StepsMustFitTheSamples) {
  const auto problem = [](const std::string& steps, int64_t micro_batch) -> std::string {
    const Config config = with_optimizer("{type: SGD, params: {lr: 0.1}}", "data: {augment: [" + steps + "]}");
    try {
      check_augmentation(config, micro_batch, {.sample = {3, 20, 32}, .classes = 10});
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
  };
  EXPECT_EQ(problem("mixup, {cutout: {length: 64}}", 2), "");
  EXPECT_NE(problem("{cutout: {length: 65}}", 2).find("cutout.length must be at least 1 and at most 64"),
            std::string::npos);
  for (const char* step : {"mixup", "cutmix"})
    EXPECT_NE(problem(step, 1).find("train_micro_batch_size_per_gpu is 1"), std::string::npos);
}

TEST(Setup, ContiguousRanksReadTheirOwnMicroBatches) {
  const BatchSizes batch{.train = 24, .micro = 2, .accumulation = 4};
  const Config config;
  const Distribution even = distribution(config, batch, {.ranks = 3});
  EXPECT_EQ(even.micro_batches(), 12);
  for (int rank = 0; rank < 3; ++rank) {
    const PipelineOptions options = pipeline_options(config, batch, even, rank);
    EXPECT_EQ(options.first_micro, 4 * rank);
    EXPECT_EQ(options.micros, 4);
    EXPECT_EQ(options.micro_batch, 2);
    EXPECT_EQ(options.train_batch, 24);
  }
}

TEST(Setup, OpenBf16IsWhatTheMachineComputesIn) {
  Config config;
  config.device = "cpu";
  config.bf16.enabled.reset();
  EXPECT_EQ(compute_type(config), DType::f32);
  settle_bf16(config);
  EXPECT_EQ(config.bf16.enabled, make_backend(config)->problem_with(DType::bf16).empty());
  EXPECT_EQ(compute_type(config), config.bf16.enabled == true ? DType::bf16 : DType::f32);
  for (const bool given : {false, true}) {
    config.bf16.enabled = given;
    settle_bf16(config);
    EXPECT_EQ(config.bf16.enabled, given);
  }
  config.bf16.enabled.reset();
  config.fp16.enabled = true;
  settle_bf16(config);
  EXPECT_EQ(config.bf16.enabled, false);
  EXPECT_EQ(compute_type(config), DType::f16);
}

/// By the position in the run, whatever was computed before.
TEST(Setup, AMicroBatchComesWithTheKeyOfItsDropouts) {
  const MadeUpSet set({1, 4, 4}, 2, 20);
  std::vector<uint32_t> images(20);
  std::iota(images.begin(), images.end(), 0u);
  Pipeline pipeline(set, images, {.seed = 42, .train_batch = 8, .micro_batch = 2});
  const auto backend = make_cpu_backend();
  const auto comm = make_solo();
  const Graph graph =
      build_graph([](Graph& g, ValueId x, int classes) { return g.linear(g.flatten(x), "fc", classes); },
                  {.batch = 2, .channels = 1, .height = 4, .width = 4, .classes = 2, .scale = {1}, .shift = {0}});
  Engine engine(*backend, *comm, lower_training(graph, {.optimizer = optim::Sgd{}}, {.accumulation = 4}),
                [](int64_t) { return ScheduleRow{}; });
  pipeline.fill(/*epoch=*/3, /*step=*/1, /*k=*/2, engine.inputs());
  const DropoutKey& key = *engine.inputs().dropout_key;
  EXPECT_EQ(key.seed, 42u);
  EXPECT_EQ(key.step, 3 * 2 + 1);  // an epoch has two steps
  EXPECT_EQ(key.micro_batch, 2);
}

TEST(Setup, OnlyTheCpuIsBuilt) {
  Config config;
  EXPECT_TRUE(make_backend(config));
  config.device = "cuda";
  try {
    make_backend(config);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace ct
