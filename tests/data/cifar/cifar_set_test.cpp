#include "data/cifar/cifar_set.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/data_fixture.h"
#include "data/description.h"
#include "data/synthetic/synthetic.h"

namespace ct {
namespace {

namespace fs = std::filesystem;
constexpr CifarOptions kSmall = {.records_per_file = 3};

using CifarSetTest = DataFixture;

TEST_F(CifarSetTest, NumbersImagesThroughTheFiles) {
  const fs::path folder = make_set("cifar-10-batches-bin", 3);
  const CifarSet train(folder, Split::train, kSmall), test(folder, Split::test, kSmall);
  EXPECT_EQ(train.name(), "CIFAR-10");
  EXPECT_EQ(train.class_names()[1], "car");
  ASSERT_EQ(train.count(), 15);
  ASSERT_EQ(test.count(), 3);
  const auto expected = records(18);
  for (int i = 0; i < 18; ++i) {
    const CifarSet& set = i < 15 ? train : test;
    const int64_t j = i < 15 ? i : i - 15;
    EXPECT_EQ(set.label(j), i % 10);
    EXPECT_TRUE(std::equal(set.pixels(j), set.pixels(j) + kImageBytes, expected.data() + i * kRecordBytes + 1)) << i;
    const uint32_t image = static_cast<uint32_t>(j);
    set.prefetch({&image, 1}, {&image, 1});
  }
}

TEST_F(CifarSetTest, DamagedFilesAreNamed) {
  const auto open = [&](const fs::path& folder) { return [=] { CifarSet(folder, Split::train, kSmall); }; };
  expect_error(ExitCode::data, {"nowhere", "no such folder", "data.path"}, open(root / "nowhere"));
  int number = 0;
  const auto damaged = [&](const std::vector<std::string>& words, const std::function<void(const fs::path&)>& damage) {
    const fs::path folder = make_set(str("set", number++), 3);
    damage(folder / "data_batch_4.bin");
    std::vector<std::string> all = words;
    all.push_back((folder / "data_batch_4.bin").string());
    all.push_back("unpack cifar-10-binary.tar.gz");
    expect_error(ExitCode::data, all, open(folder));
  };
  damaged({"no such file"}, [](const fs::path& file) { fs::remove(file); });
  damaged({"empty"}, [](const fs::path& file) { fs::resize_file(file, 0); });
  damaged({"truncated", "9218 bytes", "9219 belong"}, [](const fs::path& file) { fs::resize_file(file, 9218); });
  damaged({"truncated"}, [](const fs::path& file) { fs::resize_file(file, 2 * kRecordBytes); });
  damaged({"too long"}, [](const fs::path& file) { fs::resize_file(file, 9220); });
  damaged({"too long"}, [](const fs::path& file) { fs::resize_file(file, 4 * kRecordBytes); });
  damaged({"not a file"}, [](const fs::path& file) {
    fs::remove(file);
    fs::create_directory(file);
  });
  damaged({"not a file"}, [](const fs::path& file) {
    fs::remove(file);
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  });
  damaged({"no such file"}, [](const fs::path& file) {
    fs::remove(file);
    fs::create_symlink("gone", file);
  });
}

TEST_F(CifarSetTest, AWholeFileHasTenThousandRecordsByDefault) {
  const fs::path folder = make_set("set", 2);
  expect_error(ExitCode::data, {"data_batch_1.bin", "30730000"}, [&] { CifarSet(folder, Split::train); });
  EXPECT_EQ(CifarSet(folder, Split::train, {.records_per_file = 0}).count(), 10);
  fs::resize_file(folder / "test_batch.bin", kRecordBytes + 1);
  expect_error(ExitCode::data, {"test_batch.bin", "truncated"},
               [&] { CifarSet(folder, Split::test, {.records_per_file = 0}); });
}

TEST_F(CifarSetTest, BadLabelsAreRefusedOrSkipped) {
  const fs::path folder = make_set("set", 3);
  auto bytes = records(3, 3);
  bytes[kRecordBytes] = 10;
  bytes[2 * kRecordBytes] = 255;
  write(folder / "data_batch_2.bin", bytes);
  expect_error(ExitCode::data, {"data_batch_2.bin", "record 1", "label 10", "on_corrupt"},
               [&] { CifarSet(folder, Split::train, kSmall); });
  const CifarSet set(folder, Split::train, {.on_corrupt = OnCorrupt::skip, .records_per_file = 3});
  EXPECT_EQ(set.count(), 13);
  EXPECT_EQ(set.skipped(), 2);
  EXPECT_EQ(set.label(3), 3);
  EXPECT_EQ(set.label(4), 6);
  EXPECT_EQ(set.pixels(4)[0], static_cast<uint8_t>(6 * 7));

  write(folder / "test_batch.bin", std::vector<uint8_t>(3 * kRecordBytes, 77));
  expect_error(ExitCode::data, {"no record is valid"},
               [&] { CifarSet(folder, Split::test, {.on_corrupt = OnCorrupt::skip, .records_per_file = 3}); });
}

TEST_F(CifarSetTest, RecordsOfZerosAreRefusedOrSkipped) {
  const fs::path folder = make_set("set", 3);
  auto bytes = records(3, 3);
  std::fill(bytes.begin() + kRecordBytes, bytes.end(), 0);
  bytes.back() = 1;  // a dark image, but one
  write(folder / "data_batch_2.bin", bytes);
  expect_error(ExitCode::data, {"data_batch_2.bin", "record 1", "only zeros", "on_corrupt"},
               [&] { CifarSet(folder, Split::train, kSmall); });
  const CifarSet set(folder, Split::train, {.on_corrupt = OnCorrupt::skip, .records_per_file = 3});
  EXPECT_EQ(set.count(), 14);
  EXPECT_EQ(set.skipped(), 1);
  EXPECT_EQ(set.pixels(4)[kImageBytes - 1], 1);
}

TEST_F(CifarSetTest, CopiesOfFilesAreFound) {
  const fs::path folder = make_set("set", 3);
  const auto copy = [&](const char* from, const char* to) {
    fs::copy_file(folder / from, folder / to, fs::copy_options::overwrite_existing);
  };
  const auto warnings = [&](OnCorrupt on_corrupt) {
    const CifarOptions options{.on_corrupt = on_corrupt, .records_per_file = 3};
    const CifarSet train(folder, Split::train, options), test(folder, Split::test, options);
    return repeated_images(train) + "|" + same_images(train, test, Split::test);
  };
  EXPECT_EQ(warnings(OnCorrupt::error), "|");
  copy("data_batch_3.bin", "data_batch_5.bin");
  EXPECT_EQ(warnings(OnCorrupt::error).find("data_batch_5.bin has the same bytes as data_batch_3.bin: "), 0u);
  copy("data_batch_3.bin", "test_batch.bin");
  EXPECT_NE(warnings(OnCorrupt::error).find("|test_batch.bin has the same bytes as data_batch_3.bin, which trains"),
            std::string::npos);
  // Of files without an image it does not matter.
  auto bad = records(3, 40);
  for (size_t i = 0; i < 3; ++i) bad[i * kRecordBytes] = 255;
  for (const char* name : {"data_batch_3.bin", "data_batch_5.bin"}) write(folder / name, bad);
  write(folder / "test_batch.bin", records(3, 70));
  EXPECT_EQ(warnings(OnCorrupt::skip), "|");
}

TEST_F(CifarSetTest, ClassNamesComeFromTheFolder) {
  const fs::path folder = make_set("set", 3);
  const auto names = [&](const std::string& list) {
    std::ofstream(folder / "batches.meta.txt") << list;
    return CifarSet(folder, Split::test, kSmall).class_names();
  };
  EXPECT_EQ(names("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n")[0], "plane");
  EXPECT_EQ(names("a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng\r\nh\r\ni\r\nj\r\n")[9], "j");
  for (const std::string& garbage :
       {std::string(), std::string("a\nb\n"), std::string("\x01\n\x02\n3\n4\n5\n6\n7\n8\n9\n0"),
        std::string("b\xe9\nb\nc\nd\ne\nf\ng\nh\ni\nj\n")}) {
    expect_error(ExitCode::data, {"batches.meta.txt", "class names"}, [&] { names(garbage); });
  }
  expect_error(ExitCode::data, {"batches.meta.txt", "100000 bytes"}, [&] { names(std::string(100000, 'x')); });
}

TEST_F(CifarSetTest, ClassNamesThatCannotBeReadAreNotTakenForWrongOnes) {
  const fs::path folder = make_set("set", 3);
  std::ofstream(folder / "batches.meta.txt") << "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string message;
  try {
    read_class_names(folder);
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(message.find("batches.meta.txt': Too many open files"), std::string::npos) << message;
  EXPECT_NE(message.find("ulimit -n"), std::string::npos) << message;
  EXPECT_EQ(read_class_names(folder).size(), 10u);
}

TEST_F(CifarSetTest, TheSyntheticSetIsKnownByFolderOrNames) {
  EXPECT_EQ(CifarSet(make_set("synthetic-10-batches-bin", 3), Split::test, kSmall).name(), "synthetic-10");
  const fs::path moved = make_set("cifar-10-batches-bin", 3);
  std::ofstream meta(moved / "batches.meta.txt");
  for (std::string_view name : kSyntheticClasses) meta << name << "\n";
  meta.close();
  const CifarSet set(moved, Split::test, kSmall);
  EXPECT_EQ(set.name(), "synthetic-10");
  EXPECT_EQ(set.class_names()[0], "striped-disc");
}

TEST_F(CifarSetTest, NoticesAFileThatChanges) {
  const fs::path folder = make_set("set", 3);
  const CifarSet set(folder, Split::train, kSmall);
  set.check_unchanged();
  fs::rename(folder / "data_batch_1.bin",
             folder / "old.bin");  // replaced or moved: the mapping still holds the old one
  set.check_unchanged();
  fs::resize_file(folder / "data_batch_3.bin", 100);
  expect_error(ExitCode::data, {"data_batch_3.bin", "changed while it was in use"}, [&] { set.check_unchanged(); });
}

TEST_F(CifarSetTest, NoticesAFileThatIsCutWhereItIsRead) {
  const fs::path folder = make_set("set", 100);
  const CifarSet set(folder, Split::train, {.records_per_file = 100});
  set.check_not_cut();
  // It has no name any more: only reading it tells.
  const fs::path file = folder / "data_batch_3.bin";
  const int open_file = open(file.c_str(), O_RDWR);
  fs::remove(file);
  ASSERT_EQ(ftruncate(open_file, 0), 0);
  close(open_file);
  set.check_unchanged();
  EXPECT_EQ(set.pixels(250)[0], 0);
  expect_error(ExitCode::data, {"data_batch_3.bin", "could not be read to its end"}, [&] { set.check_not_cut(); });
  expect_error(ExitCode::data, {"data_batch_3.bin"}, [&] { set.check_unchanged(); });
}

TEST_F(CifarSetTest, InMemory) {
  const std::vector<std::string> names(10, "x");
  const CifarSet set("synthetic-10", names, records(4));
  EXPECT_EQ(set.count(), 4);
  EXPECT_EQ(set.label(3), 3);
  std::vector<uint8_t> sample(set.shape().bytes());
  set.read(2, {}, sample.data());
  EXPECT_TRUE(std::equal(sample.begin(), sample.end(), set.pixels(2)));
  EXPECT_NE(set.fingerprint(), CifarSet("synthetic-10", names, records(4, 1)).fingerprint());
  auto bad = records(4);
  bad[kRecordBytes] = 10;
  EXPECT_THROW(CifarSet("synthetic-10", names, bad), Error);
}

}  // namespace
}  // namespace ct
