#include "data/synthetic/synthetic.h"

#include <atomic>
#include <set>
#include <thread>

#include "base/sha256.h"
#include "data/cifar/cifar_kind.h"
#include "data/data_fixture.h"
#include "data/description.h"

namespace ct {
namespace {

namespace fs = std::filesystem;
using SyntheticTest = DataFixture;

TEST_F(SyntheticTest, EveryByteIsTheSameEverywhere) {
  for (uint32_t file = 0; file < 6; ++file) {
    const auto bytes = synthetic_records(kSyntheticSeed, file * 10000, 10000);
    EXPECT_EQ(sha256_hex(bytes.data(), bytes.size()), kSyntheticSha256[file]) << file;
  }
}

TEST_F(SyntheticTest, ARecordDependsOnSeedAndIndexOnly) {
  const auto one = synthetic_records(7, 100, 50, 1), three = synthetic_records(7, 100, 50, 3);
  EXPECT_EQ(one, three);
  EXPECT_NE(one, synthetic_records(8, 100, 50, 1));
  std::vector<uint8_t> record(kRecordBytes);
  synthetic_record(7, 149, record.data());
  EXPECT_TRUE(std::equal(record.begin(), record.end(), one.begin() + 49 * kRecordBytes));
}

TEST_F(SyntheticTest, ClassesAreBalancedInEveryTen) {
  const auto bytes = synthetic_records(kSyntheticSeed, 0, 100);
  std::set<std::vector<int>> orders;
  for (int ten = 0; ten < 10; ++ten) {
    std::vector<int> labels;
    for (int i = 0; i < 10; ++i) labels.push_back(bytes[(ten * 10 + i) * kRecordBytes]);
    orders.insert(labels);
    EXPECT_EQ(std::set<int>(labels.begin(), labels.end()).size(), 10u);
  }
  EXPECT_EQ(orders.size(), 10u);
}

TEST_F(SyntheticTest, WritersAtOnceLeaveOneWholeSet) {
  const fs::path folder = root / "deep" / "synthetic-10-batches-bin";
  std::atomic<int> written = 0;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 2; ++i) writers.emplace_back([&] { written += write_synthetic(folder); });
  }
  EXPECT_EQ(written, 1);
  EXPECT_FALSE(write_synthetic(folder));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.parent_path()), fs::directory_iterator()), 1) << "leftovers";
  for (const FileReport& report : verify_batches(folder)) EXPECT_EQ(report.problem, "") << report.path;
  EXPECT_EQ(text(folder / "batches.meta.txt").substr(0, 13), "striped-disc\n");

  const CifarSet test(folder, Split::test);
  EXPECT_EQ(test.count(), 10000);
  for (int64_t count : class_counts(test)) EXPECT_EQ(count, 1000);
  const ChannelStatistics statistics = channel_statistics(test);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(statistics.mean[c], 0.5, 0.03);
    EXPECT_NEAR(statistics.std[c], 0.2, 0.05);
  }

  // One flipped bit is found; a cut file makes the folder one to be deleted.
  std::fstream file(folder / "data_batch_2.bin", std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(5000);
  const int byte = file.get();
  file.seekp(5000);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  const auto reports = verify_batches(folder);
  EXPECT_NE(reports[1].problem.find(kSyntheticSha256[1]), std::string::npos);
  EXPECT_EQ(reports[2].problem, "");
  fs::resize_file(folder / "test_batch.bin", 5000 * kRecordBytes);
  expect_error(ExitCode::data, {"synthetic-10-batches-bin", "delete it"}, [&] { write_synthetic(folder); });
}

TEST_F(SyntheticTest, AFolderThatCannotBeMadeIsNamed) {
  write(root / "file", {1});
  expect_error(ExitCode::io, {(root / "file").string()}, [&] { write_synthetic(root / "file" / "set"); });
}

}  // namespace
}  // namespace ct
