#include "data/cifar/cifar100_set.h"

#include "data/data_fixture.h"
#include "data/kinds.h"

namespace ct {
namespace {

using Cifar100SetTest = DataFixture;

void write_names(const std::filesystem::path& folder, const std::string& first = "class-0") {
  std::ofstream names(folder / "fine_label_names.txt");
  names << first << "\n";
  for (int i = 1; i < 100; ++i) names << "class-" << i << "\n";
}

TEST_F(Cifar100SetTest, RecordsOfZerosAreRefusedOrSkipped) {
  constexpr size_t kRecord = kImageBytes + 2;
  write_names(root);
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

TEST_F(Cifar100SetTest, NamesThatAreNoTextAreRefused) {
  write(root / "train.bin", std::vector<uint8_t>(kImageBytes + 2, 7));
  for (const char* name : {"caf\xe9", "a\xed\xa0\x80", "a\x01"}) {
    write_names(root, name);
    expect_error(ExitCode::data, {"fine_label_names.txt", "class name 1 "},
                 [&] { Cifar100Set(root, Split::train, Labels::fine, OnCorrupt::error); });
  }
}

TEST_F(Cifar100SetTest, WhatIsNoFileIsNoInternalError) {
  write_names(root);
  std::filesystem::create_directory(root / "train.bin");
  for (const FileReport& report : find_kind("cifar100")->verify(root, {}, Depth::every_byte))
    EXPECT_FALSE(report.problem.empty()) << report.path;
}

}  // namespace
}  // namespace ct
