#include "metrics/metrics_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/checks.h"
#include "base/faulty_file_system.h"
#include "base/paths.h"
#include "base/temporary_folder.h"
#include "metrics/console.h"

namespace ct {
namespace {

Json start_record() { return {{"event", "start"}, {"step", 0}}; }
Json step_record(int64_t step) { return {{"event", "step"}, {"step", step}, {"loss", 0.5}, {"lr", 1e-3}}; }
Json eval_record(int64_t step) { return {{"event", "eval"}, {"step", step}, {"split", "test"}, {"accuracy", 0.25}}; }

TEST(MetricsCsv, OneColumnForEveryNameOfTheHeader) {
  EXPECT_EQ(csv_header(),
            "event,step,epoch,split,loss,accuracy,top5,images,lr,grad_norm,loss_scale,skipped,samples,"
            "samples_per_sec,wait_fraction,seconds_left");
  EXPECT_EQ(csv_line(step_record(3)), "step,3,,,0.5,,,,0.001,,,,,,,");
  EXPECT_EQ(csv_line(eval_record(4)), "eval,4,,test,,0.25,,,,,,,,,,");
}

TEST(MetricsCsv, AbsentAndNullAreEmptyAndUnknownKeysAreLeftOut) {
  EXPECT_EQ(csv_line({{"event", "step"}, {"step", 1}, {"loss", nullptr}, {"other", 5}}), "step,1,,,,,,,,,,,,,,");
}

TEST(MetricsCsv, RecordsWithoutScalarsHaveNoLine) {
  EXPECT_EQ(csv_line({{"event", "start"}, {"step", 0}}), std::nullopt);
  EXPECT_EQ(csv_line({{"event", "end"}, {"step", 9}}), std::nullopt);
  EXPECT_EQ(csv_line(Json::object()), std::nullopt);
}

class Log : public testing::Test {
 protected:
  std::string jsonl() const { return read_file(folder / "metrics.jsonl"); }
  std::string csv() const { return read_file(folder / "metrics.csv"); }
  static std::string lines(const std::vector<Json>& records) {
    std::string text;
    for (const Json& r : records) text += r.dump() + "\n";
    return text;
  }
  void write(const std::vector<Json>& records) {
    MetricsLog log(files, folder.path());
    for (const Json& r : records) log.write(r);
  }
  TemporaryFolder folder;
  FileSystem files;
};

TEST_F(Log, GrowsByWholeLinesAndKeepsOneHeader) {
  const Json start{{"event", "start"}, {"seed", 42}};
  write({start, step_record(1)});
  write({step_record(2)});  // opened again
  EXPECT_EQ(jsonl(), lines({start, step_record(1), step_record(2)}));
  EXPECT_EQ(csv(), csv_header() + "\n" + *csv_line(step_record(1)) + "\n" + *csv_line(step_record(2)) + "\n");
}

TEST_F(Log, CompletesAHeaderThatWasCutOff) {
  spill(folder / "metrics.csv", csv_header().substr(0, 10));
  write({step_record(1)});
  EXPECT_EQ(csv(), csv_header() + "\n" + *csv_line(step_record(1)) + "\n");
}

TEST_F(Log, GoesOnInANewFileIfItsOwnIsRemoved) {
  MetricsLog log(files, folder.path());
  log.write(step_record(1));
  EXPECT_EQ(log.take_news(), "");
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) remove_file(files, folder / name);
  log.write(step_record(2));
  const std::string news = log.take_news();
  for (const char* name : {"metrics.jsonl' was removed or replaced", "metrics.csv' was removed or replaced"})
    EXPECT_NE(news.find(name), news.npos) << news;
  spill(folder / "metrics.csv.new", "loss");
  rename_file(files, folder / "metrics.csv.new", folder / "metrics.csv");
  log.write(step_record(3));
  EXPECT_NE(log.take_news().find("what was put there is kept as 'metrics.csv.aside'"), std::string::npos);
  EXPECT_EQ(read_file(folder / "metrics.csv.aside"), "loss");  // as it was
  log.sync();
  EXPECT_EQ(log.problem(), "");
  EXPECT_EQ(jsonl(), lines({step_record(2), step_record(3)}));
  EXPECT_EQ(csv(), csv_header() + "\n" + *csv_line(step_record(3)) + "\n");
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) {
    remove_file(files, folder / name);
    std::filesystem::create_directory(folder / name);
  }
  log.write(step_record(4));
  EXPECT_EQ(log.problem(), "");
  EXPECT_EQ(jsonl(), lines({step_record(4)}));
  EXPECT_TRUE(is_folder(folder / "metrics.csv.aside-2") && is_folder(folder / "metrics.jsonl.aside"));
}

TEST_F(Log, WhatIsSyncedSurvivesAPowerFailure) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    TemporaryFolder run, backups;
    FaultyFileSystem faulty(Fault::power_loss, 1000, backups.path(), seed);
    MetricsLog log(faulty, run.path());
    log.write(step_record(1));
    log.sync();
    faulty.lose_power();
    EXPECT_EQ(read_file(run / "metrics.jsonl"), lines({step_record(1)})) << seed;
    EXPECT_EQ(read_file(run / "metrics.csv"), csv_header() + "\n" + *csv_line(step_record(1)) + "\n") << seed;
  }
}

TEST_F(Log, RewindsToTheRecordsBeforeACheckpoint) {
  const Json start = start_record();
  write({start,
         step_record(1),
         eval_record(1),
         step_record(2),
         eval_record(2),
         step_record(3),
         eval_record(3),
         {{"event", "end"}, {"step", 3}}});
  EXPECT_EQ(MetricsLog::rewind(files, folder.path(), 2), "");
  EXPECT_EQ(jsonl(), lines({start, step_record(1), eval_record(1), step_record(2)}));
  EXPECT_EQ(csv(), csv_header() + "\n" + *csv_line(step_record(1)) + "\n" + *csv_line(eval_record(1)) + "\n" +
                       *csv_line(step_record(2)) + "\n");
  write({step_record(3)});
  EXPECT_EQ(jsonl(), lines({start, step_record(1), eval_record(1), step_record(2), step_record(3)}));
}

TEST_F(Log, RewindDropsTheEvaluationAtAnEndThatComesAgain) {
  write({step_record(1), eval_record(1), step_record(2), step_record(3), eval_record(1)});
  MetricsLog::rewind(files, folder.path(), 3);
  EXPECT_EQ(jsonl(), lines({step_record(1), eval_record(1), step_record(2), step_record(3)}));
}

TEST_F(Log, RewindDropsWhatIsNoRecord) {
  const std::string too_long(kLongestRecord, 'x');
  std::ofstream(folder / "metrics.jsonl")
      << start_record().dump() << "\n[1,2]\ngarbage {\n\n"
      << step_record(2).dump() << "\n"
      << Json{{"event", "step"}, {"step", 2}, {"x", too_long}}.dump() << "\n{\"event\":\"st";
  const std::string warning = MetricsLog::rewind(files, folder.path(), 5);
  EXPECT_NE(warning.find("metrics.jsonl': 3 lines are no records and were removed"), warning.npos) << warning;
  EXPECT_EQ(jsonl(), lines({start_record(), step_record(2)}));
  EXPECT_EQ(MetricsLog::rewind(files, folder.path(), 5), "");
}

TEST_F(Log, RewindReadsMoreThanAGibibyte) {
  const Path file = folder / "metrics.jsonl";
  spill(file, lines({start_record(), step_record(1)}));
  std::filesystem::resize_file(file, (uint64_t{1} << 30) + 4096);  // with zeros, which take no room
  EXPECT_NE(MetricsLog::rewind(files, folder.path(), 1).find("1 line is no record"), std::string::npos);
  EXPECT_EQ(jsonl(), lines({start_record(), step_record(1)}));
}

TEST_F(Log, RewindWarnsOfALostEndButNotOfALineThatACrashCutOff) {
  const std::string whole = start_record().dump() + "\n";
  std::ofstream(folder / "metrics.jsonl") << whole << "{\"event\":\"st";
  EXPECT_EQ(MetricsLog::rewind(files, folder.path(), 5), "");
  std::ofstream(folder / "metrics.jsonl") << whole << "{\"event\":\"st" << std::string(100, '\0');
  const std::string warning = MetricsLog::rewind(files, folder.path(), 5);
  EXPECT_NE(warning.find("1 line is no record and was removed"), warning.npos) << warning;
  EXPECT_EQ(jsonl(), whole);
}

TEST_F(Log, RewindWarnsIfTheRunsFirstRecordIsMissing) {
  write({step_record(1), step_record(2)});
  const std::string warning = MetricsLog::rewind(files, folder.path(), 2);
  EXPECT_NE(warning.find("metrics.jsonl' does not begin with the run's start"), warning.npos) << warning;
  EXPECT_EQ(jsonl(), lines({step_record(1), step_record(2)}));
  remove_file(files, folder / "metrics.jsonl");
  const std::string missing = MetricsLog::rewind(files, folder.path(), 2);
  EXPECT_NE(missing.find("metrics.jsonl' is missing: records up to step 2"), missing.npos) << missing;
  EXPECT_EQ(MetricsLog::rewind(files, folder.path(), 0), "");  // there was none yet
}

TEST_F(Log, RewindMeetsRecordsOfOtherTypes) {
  const std::vector<std::string> odd = {"{\"event\":\"step\",\"step\":\"x\"}", "{\"event\":5,\"step\":1}",
                                        "{\"event\":null,\"step\":null}"};
  std::ofstream out(folder / "metrics.jsonl");
  for (const std::string& line : odd) out << line << "\n";
  out << step_record(1).dump() << "\n";
  out.close();
  MetricsLog::rewind(files, folder.path(), 5);
  EXPECT_EQ(jsonl(), lines({step_record(1)}));
}

TEST_F(Log, RewindOfNothingMakesNothing) {
  MetricsLog::rewind(files, folder.path(), 5);
  EXPECT_TRUE(list_folder(folder.path()).empty());
}

TEST(Console, LinesOfLabels) {
  const std::vector<std::string> names{"cat", "ship"};
  EXPECT_EQ(labels_line("GroundTruth", names), "GroundTruth:    cat  ship");
}

TEST(Console, Durations) {
  EXPECT_EQ(duration(0.2), "0 s");
  EXPECT_EQ(duration(59.6), "1 min 00 s");
  EXPECT_EQ(duration(200), "3 min 20 s");
  EXPECT_EQ(duration(630), "11 min");
  EXPECT_EQ(duration(3590), "1 h 00 min");
  EXPECT_EQ(duration(3725), "1 h 02 min");
}

}  // namespace
}  // namespace ct
