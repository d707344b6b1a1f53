#include "base/tar_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/tar_writer.h"
#include "base/temporary_folder.h"

namespace ct {
namespace {

class TarReaderTest : public testing::Test {
 protected:
  /// What is wrong with an archive of these bytes; empty: nothing.
  std::string problem(const std::string& bytes, uint64_t limit = 1 << 20) {
    names_.clear();
    contents_.clear();
    const auto path = folder.path() / "a.tar.gz";
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      TarReader tar(path, limit, ExitCode::data);
      while (const auto member = tar.next()) {
        names_.push_back(member->name);
        if (member->name == "skipped") continue;
        const auto content = tar.content();
        EXPECT_EQ(content.size(), member->bytes);
        contents_.emplace_back(reinterpret_cast<const char*>(content.data()), content.size());
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      const std::string what = error.what();
      EXPECT_TRUE(what.starts_with(path.string() + ": ")) << what;
      return what.substr(path.string().size() + 2);
    }
    return "";
  }
  void expect_word(const std::string& word, const std::string& found) {
    EXPECT_NE(found.find(word), std::string::npos) << word << " in: " << found;
  }

  TemporaryFolder folder;
  std::vector<std::string> names_, contents_;
};

const std::string kLarge(3000, 'l');

std::string archive() {
  return tar_member("d/", "", '5') + tar_member("d/a", "first") + tar_member("skipped", kLarge) +
         tar_member("d/link", "", '2') + tar_member("b", kLarge) + tar_member("empty", "") + std::string(1024, '\0');
}

TEST_F(TarReaderTest, ReadsRegularFilesGzippedOrPlain) {
  for (const std::string& bytes : {archive(), gzipped(archive())}) {
    EXPECT_EQ(problem(bytes), "");
    EXPECT_EQ(names_, (std::vector<std::string>{"d/a", "skipped", "b", "empty"}));
    EXPECT_EQ(contents_, (std::vector<std::string>{"first", kLarge, ""}));
  }
}

TEST_F(TarReaderTest, ACutOneIsNamed) {
  const std::string plain = archive(), compressed = gzipped(plain);
  for (size_t size = 0; size < plain.size() - 1024; size += 97)
    expect_word("truncated", problem(plain.substr(0, size)));
  for (size_t size = 2; size < compressed.size(); size += 3) EXPECT_NE(problem(compressed.substr(0, size)), "") << size;
}

TEST_F(TarReaderTest, FlippedBitsOfAGzippedOneShow) {
  const std::string compressed = gzipped(archive());
  for (size_t bit = 0; bit < 8 * compressed.size(); bit += 5) {
    std::string damaged = compressed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    // The time in the header and the unused bits of the last byte mean nothing.
    if (problem(damaged).empty()) {
      EXPECT_EQ(contents_, (std::vector<std::string>{"first", kLarge, ""})) << "bit " << bit;
    }
  }
}

TEST_F(TarReaderTest, WhatIsNoArchiveIsNamed) {
  expect_word("not a tar archive", problem(std::string(512, 'x')));
  std::string header = archive();
  header[600] = 'x';  // in the second header
  expect_word("damaged", problem(header));
  std::string size = archive();
  size.replace(512 + 124, 11, "zzzzzzzzzzz");
  expect_word("damaged", problem(size));
}

TEST_F(TarReaderTest, OneThatUnpacksToTooMuchIsRefused) {
  const std::string bomb = gzipped(tar_member("skipped", std::string(1 << 20, '\0')) + std::string(1024, '\0'));
  expect_word("unpacks to more than 10000 bytes", problem(bomb, 10000));
  const std::string wanted = gzipped(tar_member("wanted", std::string(1 << 20, '\0')) + std::string(1024, '\0'));
  expect_word("unpacks to more than 10000 bytes", problem(wanted, 10000));
  const std::string behind = gzipped(archive() + std::string(1 << 20, 'x'));
  expect_word("unpacks to more than 20000 bytes", problem(behind, 20000));
}

TEST_F(TarReaderTest, OnlyFilesAreOpened) {
  EXPECT_THROW(TarReader(folder.path(), 100, ExitCode::data), Error);
  EXPECT_THROW(TarReader(folder.path() / "none", 100, ExitCode::data), Error);
}

}  // namespace
}  // namespace ct
