#include "deepspeed/csv_series.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "train/config/foreign.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

constexpr std::string_view kLoss = "Train/Samples/train_loss", kLr = "Train/Samples/lr";

class Series : public testing::Test {
 protected:
  static CsvSeries::Keep up_to(int64_t last) {
    return [last](std::string_view, int64_t x) { return x <= last; };
  }
  CsvSeries begin(std::optional<CsvSeries::Keep> keep = {}) { return {files, folder / "job", std::move(keep)}; }
  std::string text(const char* name) const { return read_file(folder / "job" / name); }
  FileSystem files;
  TemporaryFolder folder;
};

// Expected texts are what DeepSpeed's csvMonitor writes.
TEST_F(Series, AFileForEachTag) {
  CsvSeries series = begin();
  series.write(kLoss, 0, 2.5);
  series.write(kLr, 16, 1e-5);
  series.write(kLoss, 16, 2);
  EXPECT_EQ(list_folder(folder / "job"),
            (std::vector<std::string>{"Train_Samples_lr.csv", "Train_Samples_train_loss.csv"}));
  EXPECT_EQ(text("Train_Samples_train_loss.csv"), "step,train_loss\r\n0,2.5\r\n16,2.0\r\n");
  EXPECT_EQ(text("Train_Samples_lr.csv"), "step,lr\r\n16,1e-05\r\n");
}

TEST_F(Series, ARunThatGoesOnHasEachStepOnce) {
  {
    CsvSeries series = begin();
    for (const int64_t x : {0, 16, 32, 48}) series.write(kLoss, x, static_cast<double>(x));
  }
  begin(up_to(16)).write(kLoss, 32, 3);
  EXPECT_EQ(text("Train_Samples_train_loss.csv"), "step,train_loss\r\n0,0.0\r\n16,16.0\r\n32,3.0\r\n");
}

TEST_F(Series, PartialRowsOfACrashAreRemoved) {
  begin().write(kLoss, 0, 1);
  File(files, folder / "job" / "Train_Samples_train_loss.csv", O_WRONLY | O_APPEND).write("16,2.");
  begin(up_to(16)).write(kLoss, 16, 2);
  EXPECT_EQ(text("Train_Samples_train_loss.csv"), "step,train_loss\r\n0,1.0\r\n16,2.0\r\n");
}

TEST_F(Series, WhatAPowerFailureDamagedIsRemoved) {
  begin().write(kLoss, 0, 1);
  const Path path = folder / "job" / "Train_Samples_train_loss.csv";
  for (const std::string& cut : {std::string("step,tra"), std::string(40, '\0')}) {
    write_file_atomic(files, path, cut);
    begin(up_to(16)).write(kLoss, 16, 2);
    EXPECT_EQ(read_file(path), "step,train_loss\r\n16,2.0\r\n");
  }
  write_file_atomic(files, path, "step,train_loss\r\n0,1.0\r\n" + std::string(8, '\0') + "8,1.5\r\n16,2.0\r\n");
  begin(up_to(16)).write(kLoss, 32, 3);
  EXPECT_EQ(read_file(path), "step,train_loss\r\n0,1.0\r\n16,2.0\r\n32,3.0\r\n");
}

TEST_F(Series, AnotherRunKeepsWhatIsThere) {
  begin().write(kLr, 16, 1);
  begin().write(kLr, 16, 2);
  begin(up_to(0)).write(kLr, 16, 3);  // the second goes on
  EXPECT_EQ(text("Train_Samples_lr.csv"), "step,lr\r\n16,1.0\r\nstep,lr\r\n16,3.0\r\n");
}

TEST_F(Series, ARunThatGoesOnMayBeginAFile) {
  begin(up_to(16)).write(kLr, 32, 1);
  EXPECT_EQ(text("Train_Samples_lr.csv"), "step,lr\r\n32,1.0\r\n");
}

TEST_F(Series, FilesOfOthersStay) {
  begin().write(kLr, 0, 1);
  const Path path = folder / "job" / "Train_Samples_train_loss.csv";
  for (const std::string text : {"my notes\n", "step,other\r\n", "steps"}) {
    write_file_atomic(files, path, text);
    EXPECT_FALSE(is_csv_series(path));
    for (const auto& keep : {std::optional<CsvSeries::Keep>(), std::optional(up_to(0))}) {
      CsvSeries series = begin(keep);
      try {
        series.write(kLoss, 0, 1);
        ADD_FAILURE() << text;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::io);
      }
    }
    EXPECT_EQ(read_file(path), text);
  }
  EXPECT_TRUE(is_csv_series(folder / "job" / "Train_Samples_lr.csv"));
}

TEST(CsvMonitor, AResetRunLosesItsFiles) {
  TemporaryFolder folder;
  FileSystem files;
  make_folders(files, folder / "csv" / "job");
  write_file_atomic(files, folder / "metrics.jsonl", "x");
  write_file_atomic(files, folder / "csv" / "Train_Samples_lr.csv", "step,lr\r\n16,0.5\r\n");
  write_file_atomic(files, folder / "csv" / "job" / "Train_Samples_lr.csv", "step,lr\r\n16,0.5\r\n");
  write_file_atomic(files, folder / "csv" / "mine.csv", "a,b\r\n");
  reset_run(files, folder.path());
  EXPECT_EQ(list_folder(folder / "csv"), std::vector<std::string>{"mine.csv"});
}

}  // namespace
}  // namespace ct
