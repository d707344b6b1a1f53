#include "data/cifar/python/python_batches.h"

#include "base/faulty_file_system.h"
#include "base/tar_writer.h"
#include "data/cifar/pickle_writer.h"
#include "data/data_fixture.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                         "dog",      "frog",       "horse", "ship", "truck"};

class PythonBatchesTest : public DataFixture {
 protected:
  static std::string pixels(size_t images) {
    std::string all(images * kImageBytes, '\0');
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * 7 + i / kImageBytes);
    return all;
  }
  static std::string batch(size_t images, bool by_columns = false) {
    std::vector<int> labels;
    for (size_t i = 0; i < images; ++i) labels.push_back(static_cast<int>(i % 10));
    return pickles::batch({labels, pixels(images), by_columns});
  }
  static void write_text(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  void convert(const fs::path& from) { convert_python_batches(files_, from, root / "out"); }

  QuickFileSystem files_;
};

TEST_F(PythonBatchesTest, AnUnpackedFolderBecomesTheBinaryFiles) {
  const fs::path from = root / "cifar-10-batches-py";
  fs::create_directory(from);
  write_text(from / "data_batch_1", batch(10000));
  for (int i = 2; i <= 4; ++i) fs::create_hard_link(from / "data_batch_1", from / str("data_batch_", i));
  write_text(from / "data_batch_5", batch(10000, /*by_columns=*/true));
  fs::create_hard_link(from / "data_batch_1", from / "test_batch");
  write_text(from / "batches.meta", pickles::names(kNames));
  write_text(from / "readme.html", "<a>");
  EXPECT_EQ(find_python_batches(root), from);
  EXPECT_EQ(find_python_batches(from), from);
  std::vector<std::string> read;
  convert_python_batches(files_, from, root / "out", [&](const std::string& name) { read.push_back(name); });
  EXPECT_EQ(read.size(), 7u);
  EXPECT_EQ(std::distance(fs::directory_iterator(root / "out"), {}), 7);

  const CifarSet train(root / "out", Split::train), test(root / "out", Split::test);
  EXPECT_EQ(train.count(), 50000);
  EXPECT_EQ(test.count(), 10000);
  EXPECT_EQ(train.name(), "CIFAR-10");
  EXPECT_EQ(train.class_names()[1], "car");
  const std::string expected = pixels(10000);
  for (const int64_t i : {0, 7, 9999, 40000, 40001, 49999}) {  // the last file has its pixels by columns
    EXPECT_EQ(train.label(i), i % 10);
    const auto at = static_cast<size_t>(i % 10000);
    for (const size_t j : {size_t{0}, size_t{1}, size_t{3071}}) {
      const size_t place = i < 40000 ? at * kImageBytes + j : j * 10000 + at;
      EXPECT_EQ(train.pixels(i)[j], static_cast<uint8_t>(expected[place])) << i << ", " << j;
    }
  }
  expect_error(ExitCode::usage, {(root / "out").string(), "exists already"}, [&] { convert(from); });

  // A file that is missing, not Python's, or has fewer images.
  fs::remove(from / "test_batch");
  fs::remove_all(root / "out");
  expect_error(ExitCode::data, {from.string(), "has no", "test_batch", "kriz"}, [&] { convert(from); });
  write_text(from / "test_batch", batch(3));
  expect_error(ExitCode::data, {(from / "test_batch").string(), "3 images", "10000", "kriz"}, [&] { convert(from); });
  write_text(from / "test_batch", "no pickle");
  expect_error(ExitCode::data, {(from / "test_batch").string(), "at byte 0", "kriz"}, [&] { convert(from); });
  EXPECT_FALSE(fs::exists(root / "out"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root), {}), 1);  // nothing half is left
}

TEST_F(PythonBatchesTest, AnArchiveIsReadByTheNamesOfItsMembers) {
  const fs::path archive = root / "cifar-10-python.tar.gz";
  EXPECT_EQ(find_python_batches(root), std::nullopt);
  write_text(archive, gzipped(tar_member("../data_batch_1", "x") + tar_member("/etc/batches.meta", "x") +
                              tar_member("data_batch_2", "x") + tar_member("cifar-10-batches-py/readme.html", "x") +
                              std::string(1024, '\0')));
  EXPECT_EQ(find_python_batches(root), archive);
  EXPECT_EQ(find_python_batches(archive), archive);
  expect_error(ExitCode::data, {archive.string(), "has no cifar-10-batches-py/batches.meta", "kriz"},
               [&] { convert(archive); });
  write_text(archive,
             gzipped(tar_member("./cifar-10-batches-py/batches.meta", "cos\nsystem\n") + std::string(1024, '\0')));
  expect_error(ExitCode::data, {(archive / "cifar-10-batches-py/batches.meta").string(), "opcode 0x63", "kriz"},
               [&] { convert(archive); });
  write_text(archive, "no archive");
  expect_error(ExitCode::data, {archive.string(), "truncated", "kriz"}, [&] { convert(archive); });
  EXPECT_EQ(std::distance(fs::directory_iterator(root), {}), 1);
}

}  // namespace
}  // namespace ct
