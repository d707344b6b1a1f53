// Small data sets in folders of their own, removed at the end of the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/cifar/cifar_set.h"

namespace ct {

class DataFixture : public testing::Test {
 protected:
  DataFixture() {
    std::string name = (std::filesystem::temp_directory_path() / "ct_data_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  ~DataFixture() override {
    std::error_code error;
    std::filesystem::remove_all(root, error);
  }

  static std::vector<uint8_t> records(int count, int first = 0) {
    std::vector<uint8_t> bytes;
    for (int i = first; i < first + count; ++i) {
      bytes.push_back(static_cast<uint8_t>(i % 10));
      for (size_t j = 0; j < kImageBytes; ++j) bytes.push_back(static_cast<uint8_t>(i * 7 + j));
    }
    return bytes;
  }

  static void write(const std::filesystem::path& path, const std::vector<uint8_t>& bytes) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  static std::string text(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// Five training files and a test file of `each` records, numbered through.
  std::filesystem::path make_set(const std::string& name, int each) {
    const std::filesystem::path folder = root / name;
    std::filesystem::create_directories(folder);
    for (int i = 0; i < 5; ++i) write(folder / str("data_batch_", i + 1, ".bin"), records(each, i * each));
    write(folder / "test_batch.bin", records(each, 5 * each));
    return folder;
  }

  /// The action fails with this code and one line that holds every one of the words.
  static void expect_error(ExitCode code, const std::vector<std::string>& words, const std::function<void()>& action) {
    try {
      action();
      ADD_FAILURE() << "no error; expected one with " << words.front();
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      for (const std::string& word : words)
        EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
    }
  }

  std::filesystem::path root;
};

}  // namespace ct
