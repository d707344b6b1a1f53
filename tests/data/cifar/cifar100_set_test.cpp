#include "data/cifar/cifar100_set.h"

#include "data/data_fixture.h"

namespace ct {
namespace {

using Cifar100SetTest = DataFixture;

TEST_F(Cifar100SetTest, RecordsOfZerosAreRefusedOrSkipped) {
  constexpr size_t kRecord = kImageBytes + 2;
  {
    std::ofstream names(root / "fine_label_names.txt");
    for (int i = 0; i < 100; ++i) names << "class-" << i << "\n";
  }
  std::vector<uint8_t> bytes(3 * kRecord, 7);
  std::fill_n(bytes.begin() + kRecord, kRecord, 0);
  std::fill_n(bytes.begin() + 2 * kRecord + 2, kImageBytes, 0);  // black, but of a class
  write(root / "train.bin", bytes);
  expect_error(ExitCode::data, {"train.bin", "record 1", "only zeros", "on_corrupt"},
               [&] { Cifar100Set(root, Split::train, Labels::fine, OnCorrupt::error); });
  const Cifar100Set set(root, Split::train, Labels::fine, OnCorrupt::skip);
  EXPECT_EQ(set.count(), 2);
  EXPECT_EQ(set.skipped(), 1);
  EXPECT_EQ(set.label(1), 7);
}

}  // namespace
}  // namespace ct
