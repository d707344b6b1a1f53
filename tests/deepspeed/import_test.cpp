#include "deepspeed/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "train/config/load.h"
#include "train/config/print.h"

namespace ct {
namespace {

class ImportTest : public testing::Test {
 protected:
  Import of(const std::string& text, const std::string& name = "ds.json") {
    path_ = folder_ / name;
    std::ofstream(path_) << text;
    return import_config(path_);
  }
  /// "FATE KEY: VALUE -- WHY" of one key.
  static std::string line(const Import& said, const std::string& key) {
    const auto found = std::ranges::find(said.keys, key, &KeyFate::key);
    if (found == said.keys.end()) return "no such key";
    return std::string(word_of(found->fate)) + " " + found->value + (found->why.empty() ? "" : " -- ") + found->why;
  }
  Config again(const Import& said) { return load_config_text(said.yaml, "yaml"); }

  TemporaryFolder folder_;
  std::filesystem::path path_;
  std::vector<std::string> warnings_;
};

const std::string kTutorial = R"({
  "train_batch_size": 4, "steps_per_print": 2000,  // DeepSpeed's tutorial
  "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001, "warmup_num_steps": 1000}},
  "wall_clock_breakdown": false, "_note": "hello", "zero_optimization": {"stage": 1, "contiguous_gradients": true},
})";

TEST_F(ImportTest, EveryKeyHasItsLineInTheFilesOrder) {
  const Import said = of(kTutorial);
  EXPECT_FALSE(said.refused());
  std::string keys;
  for (const KeyFate& k : said.keys) keys += k.key + " ";
  EXPECT_EQ(keys,
            "train_batch_size steps_per_print optimizer.type optimizer.params.lr optimizer.params.betas "
            "optimizer.params.eps optimizer.params.weight_decay scheduler.type scheduler.params.warmup_min_lr "
            "scheduler.params.warmup_max_lr scheduler.params.warmup_num_steps wall_clock_breakdown _note "
            "zero_optimization.stage zero_optimization.contiguous_gradients ");
  EXPECT_EQ(line(said, "optimizer.params.betas"), "honoured [0.8, 0.999]");
  EXPECT_EQ(line(said, "_note"), "ignored hello -- a comment");
  EXPECT_EQ(line(said, "zero_optimization.contiguous_gradients"),
            "ignored true -- gradients are always stored in the buffer of their bucket");
  EXPECT_NE(to_text(said).find("honoured  train_batch_size: 4\n"), std::string::npos) << to_text(said);
}

TEST_F(ImportTest, ABatchThatFitsNoRanksIsRefusedInDeepSpeedsWords) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"train_batch_size": 0})", "Train batch size: 0 has to be greater than 0"},
      {R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": -1})",
       "Micro batch size per gpu: -1 has to be greater than 0"},
      {R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 3})",
       "Check batch related parameters. train_batch_size is not equal to"}};
  for (const auto& [text, words] : cases) {
    const Import said = of(text);
    EXPECT_TRUE(said.refused());
    EXPECT_TRUE(said.broken.starts_with(words)) << said.broken;
  }
  EXPECT_FALSE(of(R"({"train_batch_size": 3})").refused());  // 1 or 3 ranks
  EXPECT_FALSE(of(R"({"gradient_clipping": 1})").refused());
}

TEST_F(ImportTest, NoStepsPerPrintAreTheDefault) {
  EXPECT_EQ(line(of(R"({"train_batch_size": 4, "steps_per_print": null})"), "steps_per_print"),
            "honoured null -- it follows from other keys, or is the default");
}

TEST_F(ImportTest, TheYamlLoadsToTheSame) {
  for (const std::string& text :
       {kTutorial, std::string(R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto",
          "optimizer": {"type": "AdamW", "params": {"lr": 0.5, "weight_decay": "auto"}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}, "bfloat16": {"enabled": true},
          "prescale_gradients": true, "communication_data_type": "BF16",
          "zero_optimization": {"cpu_offload": true, "param_persistence_threshold": 7}})"),
        std::string(R"({"optimizer": {"type": "SGD"}, "elasticity": {"enabled": true, "max_train_batch_size": 64,
          "micro_batch_sizes": [4, 8], "version": 0.1}, "zero_optimization": true})")}) {
    const Import said = of(text);
    EXPECT_FALSE(said.refused()) << to_text(said);
    EXPECT_TRUE(again(said) == load_config({.files = {path_}}, &warnings_)) << said.yaml;
  }
}

TEST_F(ImportTest, AliasesAreReported) {
  const Import said = of(R"({"optimizer": {"type": "SGD"}, "bfloat16": {"enabled": true, "immediate_grad_update": true},
    "zero_optimization": {"cpu_offload": true, "prefetch_bucket_size": 5, "param_persistence_threshold": 7}})");
  EXPECT_EQ(line(said, "bfloat16.enabled"), "honoured true -- as bf16.enabled: true");
  EXPECT_EQ(line(said, "zero_optimization.cpu_offload"),
            "honoured true -- as zero_optimization.offload_optimizer.device: cpu");
  EXPECT_EQ(line(said, "zero_optimization.param_persistence_threshold"),
            "honoured 7 -- as zero_optimization.stage3_param_persistence_threshold: 7");
  EXPECT_EQ(line(said, "zero_optimization.prefetch_bucket_size"),
            "ignored 5 -- the program plans all gathers and releases of parameters before the first step");
  EXPECT_EQ(line(said, "bfloat16.immediate_grad_update"),
            "ignored true -- each gradient is added in f32 as soon as it is computed");
  const Import old = of(R"({"zero_optimization": true})");
  EXPECT_EQ(line(old, "zero_optimization"), "honoured true -- as zero_optimization.stage: 1");
}

TEST_F(ImportTest, WhatIsRefusedIsLeftOutAndTheRestIsJudged) {
  const Import said = of(R"({"train_batch_size": "many", "optimizer": {"type": "OneBitAdam",
    "params": {"lr": 0.1, "freeze_step": 3}}, "amp": {"enabled": true, "opt_level": "O1"}, "trian_batch_size": 4,
    "compression_training": {"a": 1}, "checkpoint": {"tag_validation": "Maybe", "load_universal": true},
    "zero_optimization": {"stage": 5, "offload_optimizer": {"device": "nvme", "ratio": 0.5}, "stge": 1},
    "communication_data_type": "int8", "fp16": true, "gradient_clipping": 1.5})");
  EXPECT_TRUE(said.refused());
  for (const auto& [key, text] : std::map<std::string, std::string>{
           {"train_batch_size", "refused many -- train_batch_size expects a whole number, found 'many'"},
           {"optimizer.type", "refused OneBitAdam -- optimizer.type must be SGD"},
           {"optimizer.params.freeze_step", "refused 3 -- it belongs to a refused block"},
           {"amp.enabled",
            "refused true -- amp.enabled true is not supported by this version; use false: use fp16 or bf16"},
           {"amp.opt_level", "refused O1 -- it belongs to a refused block"},
           {"trian_batch_size", "refused 4 -- unknown key 'trian_batch_size'; did you mean 'train_batch_size'?"},
           {"compression_training",
            "refused {a: 1} -- compression_training is not supported by this version; use {} or enabled: false "
            "in each of its blocks: the program has no such feature"},
           {"checkpoint.tag_validation",
            "refused Maybe -- checkpoint.tag_validation Maybe is not supported by this version; use Warn or Ignore or "
            "Fail: Checkpoint config contains invalid tag_validation value"},
           {"zero_optimization.stage", "refused 5 -- zero_optimization.stage must be at least 0 and at most 3"},
           {"zero_optimization.offload_optimizer.device",
            "refused nvme -- zero_optimization.offload_optimizer.device must be none or cpu, found 'nvme'"},
           {"zero_optimization.offload_optimizer.ratio",
            "refused 0.5 -- zero_optimization.offload_optimizer.ratio 0.5 is not supported by this version; use 1: "
            "Partial offloading only supported for ZeRO Stage 3."},
           {"zero_optimization.stge", "refused 1 -- unknown key 'zero_optimization.stge'"},
           {"communication_data_type",
            "refused int8 -- Invalid communication_data_type. Supported data types: "
            "['fp16', 'bf16', 'fp32']. Got: int8"},
           {"fp16", "refused true -- fp16 is a block of keys, found 'true'"},
           {"gradient_clipping", "honoured 1.5"}})
    EXPECT_EQ(line(said, key).find(text), 0u) << key << "\n" << line(said, key) << "\n" << text;
  EXPECT_EQ(said.yaml, "gradient_clipping: 1.5\n");
}

TEST_F(ImportTest, ABrokenRuleBetweenKeysIsReported) {
  const Import said = of(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})");
  EXPECT_TRUE(said.refused());
  EXPECT_NE(said.broken.find("bfloat16 and fp16 modes cannot be simultaneously enabled"), std::string::npos);
}

TEST_F(ImportTest, NothingIsNoKeys) {
  EXPECT_TRUE(of("").keys.empty());
  EXPECT_TRUE(of("{}").keys.empty());
  EXPECT_EQ(of("{}").yaml, "");
  EXPECT_THROW(of("{\"a\": "), Error);
}

TEST_F(ImportTest, YamlIsJudgedAlike) {
  const Import said = of("model: {name: resnet18, patch: 4}\noptimizer: {type: SGD}\n", "c.yaml");
  EXPECT_EQ(line(said, "model.name"), "honoured resnet18");
  EXPECT_EQ(line(said, "model.patch").find("refused 4 -- model.patch is not a key of the model resnet18"), 0u);
}

}  // namespace
}  // namespace ct
