#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "train/config/foreign.h"
#include "train/config/load.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

const std::string kFile = R"(seed: 42
imagenet:
  train: /datasets/imagenet/train
  val: /datasets/imagenet/val
wandb:
  project: deepspeed-tutorial
  entity: YOUR_ACCOUNT
  run_name: tutorial
train:
  epochs: 1
  log_interval: 4
  save_interval: 60
  max_global_step: -1
  save_path: /scratch/tutorials
eval:
  ckpt_path: /scratch/tutorials/tutorial/120/mp_rank_00_model_states.pt   
  batch_size: 280
  max_eval: 10
)";
const std::string kDeepSpeed = R"({
  "train_batch_size": 10080, "train_micro_batch_size_per_gpu": 280, "gradient_accumulation_steps": 1,
  "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.05}},
  "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 128, "warmup_num_steps": 10}},
  "gradient_clipping": 1.0,
  "fp16": {"enabled": true, "auto_cast": true},
  "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "allgather_partitions": true, "allgather_bucket_size": 2e8, "overlap_comm": true, "reduce_scatter": true,
    "reduce_bucket_size": 2e8, "contiguous_gradients": true}
})";

class ImagenetFile : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  Config load(const std::string& text, const std::vector<std::string>& sets = {}) {
    return load_config({.files = {write("default.yaml", text), write("ds.json", kDeepSpeed)}, .sets = sets},
                       &warnings_);
  }
  std::string error(const std::string& text) {
    try {
      load(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      const std::string what = error.what();
      return what.substr(std::min(what.size(), what.find("default.yaml")));
    }
    return "no error";
  }
  EvaluationKeys evaluation(const std::string& text) {
    return evaluation_of(document::read_file(write("default.yaml", text)));
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::vector<std::string> warnings_;
};

std::string with(std::string text, const std::string& old, const std::string& now) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

TEST_F(ImagenetFile, LoadsAsItIsWithItsDeepSpeedFile) {
  const Config c = load(kFile);
  EXPECT_EQ(c.model.name, "resnet50");
  EXPECT_EQ(c.data.train, "/datasets/imagenet/train");
  EXPECT_EQ(c.data.val, "/datasets/imagenet/val");
  EXPECT_EQ(c.data.mean, (std::vector<double>{0.485, 0.456, 0.406}));
  EXPECT_TRUE(std::holds_alternative<Flip>(c.data.augment.back()));
  EXPECT_EQ(c.train.epochs, 1);
  EXPECT_EQ(c.train.max_steps, -1);
  EXPECT_EQ(c.train.save_interval, 60);
  EXPECT_EQ(c.steps_per_print, 4);
  EXPECT_EQ(c.train.log_interval, Config().train.log_interval);
  EXPECT_EQ(c.output, "/scratch/tutorials/tutorial");
  EXPECT_EQ(fitting_ranks(c.batch, 9), std::vector<int64_t>{36});
  EXPECT_EQ(std::get<optim::WarmupCosineLr>(c.scheduler).total_num_steps, 128);
  ASSERT_EQ(warnings_.size(), 1u);
  for (const char* key : {"wandb.project", "wandb.entity", "fp16.auto_cast", "pin_memory"})
    EXPECT_NE(warnings_[0].find(key), std::string::npos) << warnings_[0];
  EXPECT_EQ(warnings_[0].find("run_name"), std::string::npos) << warnings_[0];
}

TEST_F(ImagenetFile, ValuesKeepTheirPlaces) {
  const Config c = load(kFile);
  EXPECT_TRUE(c.origins.at("steps_per_print").ends_with("default.yaml:11:17")) << c.origins.at("steps_per_print");
  EXPECT_TRUE(c.origins.at("model.name").ends_with("default.yaml:2:1 (imagenet)")) << c.origins.at("model.name");
  EXPECT_EQ(error(with(kFile, "log_interval: 4", "log_interval: 0")),
            "default.yaml:11:17: steps_per_print must be at least 1, found 0");
}

TEST_F(ImagenetFile, ItsOwnWordsAndOptionsWinOverTheScript) {
  const Config c = load(kFile + "model: {name: resnet18}\n", {"data.augment=[]", "train.max_steps=7"});
  EXPECT_EQ(c.model.name, "resnet18");
  EXPECT_TRUE(c.data.augment.empty());
  EXPECT_EQ(c.train.max_steps, 7);
  EXPECT_EQ(load(kFile, {"scheduler.params.total_num_steps=auto"}).scheduler.index(),
            optim::LrSchedule(optim::WarmupCosineLr()).index());
  EXPECT_FALSE(std::get<optim::WarmupCosineLr>(load(kFile, {"scheduler.params.total_num_steps=auto"}).scheduler)
                   .total_num_steps);
}

TEST_F(ImagenetFile, AShorterFileIsEnough) {
  const Config c = load("imagenet:\n");
  EXPECT_EQ(c.model.name, "resnet50");
  EXPECT_EQ(c.output, Config().output);
  EXPECT_EQ(load("imagenet: {train: a}\ntrain: {save_path: x}\n").output, "x");
  EXPECT_EQ(load("imagenet: {train: a}\ntrain: {save_path: x}\nwandb: {run_name: 2024}\n").output, "x/2024");
}

TEST_F(ImagenetFile, MistakesAreNamed) {
  EXPECT_EQ(error(with(kFile, "  val: /d", "  test: /d")),
            "default.yaml:4:3: unknown key 'imagenet.test' in a file with an imagenet block");
  EXPECT_EQ(error(kFile + "steps_per_print: 3\n"),
            "default.yaml:11:3: train.log_interval is an alias of steps_per_print, which is given too; remove one");
  EXPECT_EQ(error(with(kFile, "max_eval: 10", "max_eval: -1")),
            "default.yaml:18:13: eval.max_eval expects a whole number, at least 0, found '-1'");
  EXPECT_EQ(error(with(kFile, "max_eval", "max_evals")),
            "default.yaml:18:3: unknown key 'eval.max_evals' in a file with an imagenet block");
  EXPECT_NE(error(with(kFile, "run_name: tutorial", "run_name: [a]")).find("wandb.run_name names the run's folder"),
            std::string::npos);
  EXPECT_NE(error("imagenet: 5\n").find("imagenet is a block of keys"), std::string::npos);
  EXPECT_NE(error("imagenet: {train: [a]}\n").find("data.train expects text"), std::string::npos);
  EXPECT_NE(error("imagenet: {train: a}\ndata: 5\n").find("data is a block of keys"), std::string::npos);
  EXPECT_NE(error("imagenet: {train: a}\ntrain: 5\n").find("train is a block of keys"), std::string::npos);
  EXPECT_NE(error("eval: {batch_size: 3}\n").find("unknown key 'eval"), std::string::npos);  // no such block
}

TEST_F(ImagenetFile, EvaluationsAreThoseOfTheScript) {
  const EvaluationKeys said = evaluation(kFile);
  EXPECT_EQ(said.checkpoint, "/scratch/tutorials/tutorial/ckpt/step-00000120");
  EXPECT_EQ(said.batch_size, 280);
  EXPECT_EQ(said.max_images, 3360);
  EXPECT_EQ(evaluation("eval: {ckpt_path: runs/x/best.bin}\n").checkpoint, "runs/x/best.bin");
  EXPECT_EQ(evaluation("eval: {ckpt_path: runs/x/best/mp_rank_00_model_states.pt}\n").checkpoint,
            "runs/x/best/mp_rank_00_model_states.pt");
  EXPECT_FALSE(evaluation("eval: {batch_size: 2}\n").max_images);
  EXPECT_FALSE(evaluation("seed: 1\n").batch_size);
}

}  // namespace
}  // namespace ct
