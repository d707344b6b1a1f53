#include "data/file_lists/file_list_set.h"

#include "data/data_fixture.h"
#include "data/packed/memory_pictures.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

class FileListTest : public DataFixture {
 protected:
  FileListTest() {
    lines("labels.txt", "airplane, 0\nbird, of prey, 1\r\n\ncat,2\n");
    lines("training_file_list.txt", root.string() + "/train/a b.png 1\nrelative.png 0\n\n  /x 2 \r\n");
    lines("validation_file_list.txt", "/y 2");
    fs::create_directory(root / "train");
    const auto file = png_file(5, 4, 1);
    std::ofstream(root / "train" / "a b.png", std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  }
  void lines(const std::string& name, const std::string& text) const { std::ofstream(root / name) << text; }
  FileListSet open(Split split = Split::train) const { return {root, split, OnCorrupt::error}; }
};

TEST_F(FileListTest, ListsAreRead) {
  EXPECT_TRUE(holds_file_lists(root));
  EXPECT_FALSE(holds_file_lists(root / "train"));
  const FileListSet train = open(), test = open(Split::test);
  EXPECT_EQ(train.class_names(), (std::vector<std::string>{"airplane", "bird, of prey", "cat"}));
  ASSERT_EQ(train.count(), 3);
  EXPECT_EQ(train.picture_name(0), root / "train/a b.png");
  EXPECT_EQ(train.picture_name(1), root / "relative.png");
  EXPECT_EQ(train.picture_name(2), "/x");
  EXPECT_EQ(train.label(0), 1);
  EXPECT_EQ(train.label(1), 0);
  EXPECT_EQ(train.label(2), 2);
  ASSERT_EQ(test.count(), 1);
  EXPECT_EQ(test.picture_name(0), "/y");
  std::vector<std::byte> scratch;
  const Picture picture = decode(train.bytes(0, scratch));
  EXPECT_EQ(picture.width, 5);
  EXPECT_EQ(picture.height, 4);
  expect_error(ExitCode::data, {"relative.png", "No such file"}, [&] { train.bytes(1, scratch); });
  const uint32_t fingerprint = train.fingerprint();
  lines("training_file_list.txt", "/x 1\n");
  EXPECT_NE(open().fingerprint(), fingerprint);
}

TEST_F(FileListTest, WhatIsWrongIsNamedWithItsLine) {
  const auto wrong = [&](const std::string& name, const std::string& text, const std::vector<std::string>& words) {
    const std::string before = this->text(root / name);
    lines(name, text);
    std::vector<std::string> all = {(root / name).string()};
    all.insert(all.end(), words.begin(), words.end());
    expect_error(ExitCode::data, all, [&] { open(); });
    lines(name, before);
  };
  const std::string list = "training_file_list.txt", labels = "labels.txt";
  wrong(list, "/x 0\n/x\n", {"line 2", "'/x'"});
  wrong(list, "/x 0\n3\n", {"line 2"});
  wrong(list, "/x one\n", {"line 1", "'/x one'"});
  wrong(list, "/x -1\n", {"line 1"});
  wrong(list, "/x 99999999999999999999\n", {"line 1"});
  wrong(list, "\n/x 3\n", {"line 2", "label 3", "0 to 2"});
  wrong(list, "\n", {"contains no picture"});
  wrong(list, "\x1b[31m\n", {"line 1", "\\x1b"});
  wrong(labels, "airplane 0\n", {"line 1"});
  wrong(labels, "airplane, 0\nbird, 0\n", {"line 2", "label 0 has a name already"});
  wrong(labels, "airplane, 0\ncat, 2\n", {"label 1 has no name"});
  wrong(labels, "airplane, 65536\n", {"label 65536"});
  wrong(labels, "", {"contains no class"});
  fs::remove(root / labels);
  expect_error(ExitCode::data, {(root / labels).string()}, [&] { open(); });
}

}  // namespace
}  // namespace ct
