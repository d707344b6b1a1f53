// Data sets that are not CIFAR, through whole runs: other shapes, other numbers of classes, read by worker threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/temporary_folder.h"
#include "comm/host/threads.h"
#include "comm/watchdog/watchdog.h"
#include "data/made_up_set.h"
#include "train/config/load.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace ct {
namespace {

using Open = std::unique_ptr<DataSet> (*)(const DataSource&, Split, const OpenOptions&);

template <int C, int H, int W, int K>
std::unique_ptr<DataSet> in_memory(const DataSource&, Split split, const OpenOptions&) {
  return std::make_unique<MadeUpSet>(SampleShape{C, H, W}, K, split == Split::train ? 50 : 21);
}

struct Run {
  std::string model;
  Open open;
  std::string output;
  std::string more = "";  // configuration of training
  int ranks = 1;
  bool speaks = false;
  int micro_batches = 4;  // of two images, in a step
  std::string data = "";  // configuration of data
  int held_out = 5;       // images; 0 where classes have one each
};

int train(const Run& run, Supervision* supervision = nullptr) {
  TrainOptions options;
  options.config = load_config_text(
      str("model: {name: ", run.model, "}\ntrain_batch_size: ", 2 * run.micro_batches,
          "\ntrain_micro_batch_size_per_gpu: 2\noutput: ", run.output,
          "\ntrain: {eval_batch_size: 4, eval_interval: 100, best: {split: test}", run.more.empty() ? "" : ", ",
          run.more, "}\noptimizer: {type: SGD, params: {lr: 0.01, momentum: 0.9}}\nsteps_per_print: 2\n",
          "data: {dataset: synthetic, path: ", Path(run.output).parent_path().string(),
          ", limit: 48, validation: ", run.held_out,
          ", augment: [flip, random_resized_crop, color_jitter, random_crop, {mixup: {p: "
          "0.5}}, cutmix]",
          run.data.empty() ? "" : ", ", run.data, "}\n"),
      "test.yaml");
  const DataKind kinds[] = {made_up_kind(run.open)};
  options.data_kinds = kinds;
  return run_ranks(run.ranks, [&](Communicator& comm) {
    std::optional<Watchdog> watchdog;
    if (supervision != nullptr) watchdog.emplace(comm, *supervision);
    Console console(run.speaks && comm.rank() == 0, Verbosity::normal);
    return static_cast<int>(Trainer(options, comm, console).run());
  });
}

Json last_record(const std::string& folder, const std::string& event) {
  std::ifstream in(folder + "/metrics.jsonl");
  Json found;
  for (std::string line; std::getline(in, line);)
    if (Json record = Json::parse(line); record["event"] == event) found = std::move(record);
  return found;
}

class DataShapes : public testing::Test {
 protected:
  std::string folder(const std::string& name) const { return (temporary_.path() / name).string(); }
  TemporaryFolder temporary_;
};

TEST_F(DataShapes, TrainSaveResumeAndEvaluateToTheSameBits) {
  for (const auto& [open, classes, name] : {std::tuple<Open, size_t, std::string>{in_memory<3, 40, 24, 7>, 7, "wide"},
                                            {in_memory<1, 28, 28, 300>, 300, "grey"}}) {
    const std::string whole = folder(name), parts = folder(name + "-parts");
    const int held_out = classes == 7 ? 5 : 0;
    const auto run = [&](const std::string& output, const std::string& more, int ranks) {
      return train(
          {.model = "linear", .open = open, .output = output, .more = more, .ranks = ranks, .held_out = held_out});
    };
    ASSERT_EQ(run(whole, "max_steps: 15, epochs: 3", 1), 0);  // 5 or 6 steps an epoch
    ASSERT_EQ(run(parts, "epochs: 3, max_steps: 7", 2), 0);
    ASSERT_EQ(run(parts, "max_steps: 15, epochs: 3", 4), 0);
    const Json end = last_record(whole, "end"), eval = last_record(whole, "eval");
    EXPECT_EQ(end["step"], 15);
    EXPECT_EQ(last_record(whole, "start")["train_images"], 48 - held_out);
    EXPECT_EQ(end["weights_sha256"], last_record(parts, "end")["weights_sha256"]);
    EXPECT_EQ(eval["loss"], last_record(parts, "eval")["loss"]);
    EXPECT_EQ(eval["images"], 21);
    EXPECT_EQ(eval["per_class"].size(), classes);
    const WeightsInfo info = info_of(SafetensorsFile(whole + "/best.bin"));
    EXPECT_EQ(info.dataset, "made-up");
    EXPECT_EQ(info.class_names.size(), classes);
    EXPECT_EQ(info.limit, 48);
  }
  EXPECT_GT(last_record(folder("wide"), "eval")["accuracy"], 1.0 / 7);  // and learns
}

TEST_F(DataShapes, AResidualNetworkTakesAnyShape) {
  for (const Open open : {Open(in_memory<3, 40, 24, 7>), Open(in_memory<1, 28, 28, 300>)}) {
    const std::string out = folder(open == Open(in_memory<1, 28, 28, 300>) ? "grey" : "wide");
    EXPECT_EQ(train({.model = "resnet18", .open = open, .output = out, .more = "max_steps: 1", .held_out = 0}), 0);
    EXPECT_EQ(last_record(out, "eval")["images"], 21);
  }
}

TEST_F(DataShapes, TheStemSuitsTheImagesAndIsRecorded) {
  const auto recorded = [](const std::string& out) {
    std::vector<std::string> warnings;
    const Model model = load_config({.files = {out + "/config.yaml"}}, &warnings).model;
    const Model of_weights = info_of(SafetensorsFile(out + "/best.bin")).model;
    EXPECT_EQ(model.resnet.stem, of_weights.resnet.stem);
    EXPECT_EQ(of_weights.name, "resnet18");
    EXPECT_EQ(of_weights.resnet.width, 4);
    return model.resnet.stem;
  };
  const std::string small = folder("small"), large = folder("large"), parts = folder("parts"), asked = folder("asked");
  ASSERT_EQ(train({"resnet18, width: 4", in_memory<3, 40, 70, 7>, small, "max_steps: 1"}), 0);
  EXPECT_EQ(recorded(small), Stem::cifar);
  const Open open = in_memory<3, 64, 70, 7>;
  ASSERT_EQ(train({"resnet18, width: 4", open, large, "max_steps: 3"}), 0);
  EXPECT_EQ(recorded(large), Stem::imagenet);
  ASSERT_EQ(train({"resnet18, width: 4", open, parts, "max_steps: 2", 2}), 0);
  ASSERT_EQ(train({"resnet18, width: 4", open, parts, "max_steps: 3", 4}), 0);
  EXPECT_EQ(last_record(large, "end")["weights_sha256"], last_record(parts, "end")["weights_sha256"]);
  // What is left to the program stays as the run began.
  ASSERT_EQ(train({"resnet18, width: 4, stem: cifar", open, asked, "max_steps: 1"}), 0);
  ASSERT_EQ(train({"resnet18, width: 4", open, asked, "max_steps: 2", 2}), 0);
  EXPECT_EQ(recorded(asked), Stem::cifar);
  try {
    train({"resnet18, width: 4, stem: imagenet", open, asked, "max_steps: 3"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::checkpoint);
    EXPECT_NE(std::string(error.what()).find("model.stem: cifar saved, imagenet now"), std::string::npos)
        << error.what();
  }
}

TEST_F(DataShapes, SamplesThatDoNotFitAreRefused) {
  const auto refusal = [&](const std::string& model, Open open) {
    try {
      train({.model = model, .open = open, .output = folder("refused"), .held_out = 0});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string text = refusal("cnn", in_memory<1, 28, 28, 300>);
  for (const char* word : {"cnn", "3x32x32", "1x28x28", "resnet18"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
  EXPECT_NE(refusal("cnn_plain", in_memory<3, 40, 24, 7>).find("3x40x24"), std::string::npos);
}

std::unique_ptr<DataSet> with_a_bad_image(const DataSource&, Split split, const OpenOptions&) {
  return std::make_unique<MadeUpSet>(SampleShape{1, 8, 8}, 2, 50, [split](int64_t i) {
    if (split == Split::train && i == 17) fail(ExitCode::data, "pictures/17.png: not a picture; restore it");
  });
}

TEST_F(DataShapes, AnErrorOfAWorkerIsTheRanks) {
  try {
    train({.model = "linear", .open = with_a_bad_image, .output = folder("bad"), .ranks = 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_EQ(error.what(), std::string("pictures/17.png: not a picture; restore it"));
  }
}

std::unique_ptr<DataSet> that_hangs(const DataSource&, Split, const OpenOptions&) {
  return std::make_unique<MadeUpSet>(SampleShape{1, 8, 8}, 2, 50, [](int64_t i) {
    while (i == 17) std::this_thread::sleep_for(std::chrono::seconds(1));
  });
}

TEST_F(DataShapes, AWorkerThatNeverReturnsEndsTheRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Supervision supervision{.heartbeat_s = 30, .timeout_s = 1};
  EXPECT_EXIT(train({.model = "linear", .open = that_hangs, .output = folder("hangs"), .ranks = 2}, &supervision),
              testing::ExitedWithCode(static_cast<int>(ExitCode::peer)), "makes no progress .* in phase data");
}

std::unique_ptr<DataSet> that_is_slow(const DataSource&, Split split, const OpenOptions&) {
  const std::chrono::milliseconds each(split == Split::train ? 80 : 0);
  return std::make_unique<MadeUpSet>(SampleShape{1, 8, 8}, 2, 50,
                                     [each](int64_t) { std::this_thread::sleep_for(each); });
}

TEST_F(DataShapes, WaitingForDataIsReportedOnce) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_EQ(
      train(
          {.model = "linear", .open = that_is_slow, .output = folder("slow"), .more = "max_steps: 10", .speaks = true}),
      0);
  testing::internal::GetCapturedStdout();
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t at = said.find("warning: training waits for data");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_NE(said.find("data.workers is ", at), std::string::npos) << said;
  EXPECT_EQ(said.find("waits for data", at + 30), std::string::npos) << said;
}

/// Sleeps in the first image of every micro-batch of two, if it should.
std::atomic<int> sleep_us;
std::unique_ptr<DataSet> that_sleeps(const DataSource&, Split split, const OpenOptions&) {
  static std::atomic<int> reads;
  return std::make_unique<MadeUpSet>(SampleShape{3, 32, 32}, 10, 50, [split](int64_t) {
    if (split == Split::train && reads++ % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(sleep_us));
  });
}

/// A measurement, no test (it is about time): --gtest_also_run_disabled_tests. How much longer 60 steps take where one
/// worker sleeps 80 % of a step for each micro-batch.
TEST_F(DataShapes, DISABLED_ALoaderBesideTheSteps) {
  const auto seconds_of_a_step = [&](int us) {
    sleep_us = us;
    const std::string output = folder("sleeps");
    std::filesystem::remove_all(output);
    EXPECT_EQ(train({.model = "resnet18",
                     .open = that_sleeps,
                     .output = output,
                     .more = "max_steps: 60, epochs: 1000, save_interval: 1000",
                     .micro_batches = 1,
                     .data = "workers: 1"}),
              0);
    return 2.0 / last_record(output, "end")["samples_per_sec"].get<double>();
  };
  const double step = seconds_of_a_step(0);
  std::vector<double> ratios;
  for (int i = 0; i < 9; ++i) {
    const double without = seconds_of_a_step(0), with = seconds_of_a_step(static_cast<int>(0.8e6 * step));
    ratios.push_back(with / without);
    std::cout << "a step of " << without * 1e3 << " ms takes " << ratios.back() << " times as long\n";
  }
  std::sort(ratios.begin(), ratios.end());
  std::cout << "median " << ratios[4] << "\n";
}

TEST(ClassTable, OfManyClassesTheWorstAndTheBest) {
  Evaluation evaluation;
  std::vector<std::string> names;
  for (int c = 0; c < 300; ++c) {
    evaluation.classes.push_back({.images = c == 5 ? 0 : 1000, .correct = c});
    names.push_back(str("class-", c));
  }
  const auto lines = class_lines(evaluation, names);
  ASSERT_EQ(lines.size(), 21u);
  EXPECT_EQ(lines[0], "The 10 worst and the 10 best of 299 classes:");
  EXPECT_EQ(lines[1], class_accuracy_line("class-0", 0, 1000));
  EXPECT_EQ(lines[6], class_accuracy_line("class-6", 6, 1000));
  EXPECT_EQ(lines[20], class_accuracy_line("class-299", 299, 1000));
  evaluation.classes.resize(20);
  EXPECT_EQ(class_lines(evaluation, names).size(), 20u);
}

}  // namespace
}  // namespace ct
