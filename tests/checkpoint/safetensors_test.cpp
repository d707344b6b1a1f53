#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/temporary_folder.h"
#include "checkpoint/samples.h"

namespace ct {
namespace {

/// A file as another program would write it.
std::string foreign(const std::string& header, const std::string& payload = "") {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + payload;
}

class Safetensors : public testing::Test {
 protected:
  std::string refusal(const std::string& contents) {
    std::filesystem::remove(path_);
    spill(path_, contents);
    return error_of(ExitCode::checkpoint, [&] { SafetensorsFile file(path_); });
  }
  TemporaryFolder folder_;
  Path path_ = folder_ / "w.bin";
  QuickFileSystem files_;
  Samples samples_;
};

TEST_F(Safetensors, RoundTrip) {
  const Metadata metadata = {{"model", R"({"name":"cnn"})"}, {"classes", "plane\ncar"}};
  write_safetensors(files_, path_, samples_.views(), metadata);
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_TRUE(file.checksums());
  ASSERT_EQ(file.tensors().size(), samples_.views().size());
  for (const TensorView& t : samples_.views()) {
    ASSERT_TRUE(file.find(t.name));
    EXPECT_TRUE(same(t, *file.find(t.name))) << t.name;
  }
  EXPECT_FALSE(file.find("nothing"));
}

TEST_F(Safetensors, HeadersOfMoreThanAMillionBytesAreNeitherWrittenNorRead) {
  const Metadata long_names = {{"cifar_train.class_names", std::string(1'000'000, 'x')}};
  const std::string written =
      error_of(ExitCode::data, [&] { write_safetensors(files_, path_, samples_.views(), long_names); });
  EXPECT_NE(written.find(", more than the 1000000 that are read of one"), std::string::npos) << written;
  const std::string read = refusal(foreign(R"({"a":")" + std::string(1'000'000, 'x') + R"("})"));
  EXPECT_NE(read.find("its header has 1000008 bytes, more than the 1000000 that are read"), std::string::npos) << read;
}

TEST_F(Safetensors, HeaderIsWhatPyTorchReads) {
  write_safetensors(files_, path_, samples_.views(), {});
  const std::string text = read_file(path_);
  uint64_t size;
  std::memcpy(&size, text.data(), 8);
  EXPECT_EQ(size % 8, 0u);
  EXPECT_EQ(text[8], '{');
  const auto json = nlohmann::json::parse(text.substr(8, size));
  uint64_t next = 0;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      for (const auto& value : entry) EXPECT_TRUE(value.is_string());
      continue;
    }
    EXPECT_EQ(entry.size(), 3u);
    EXPECT_EQ(entry["data_offsets"][0], next);
    next = entry["data_offsets"][1];
  }
  EXPECT_EQ(next, text.size() - 8 - size);
  EXPECT_EQ(json["conv1.weight"]["dtype"], "F32");
  EXPECT_EQ(json["conv1.weight"]["shape"], (std::vector<int>{6, 3, 5, 5}));
}

TEST_F(Safetensors, NoTensors) {
  write_safetensors(files_, path_, {}, {});
  EXPECT_TRUE(SafetensorsFile(path_).tensors().empty());
}

TEST_F(Safetensors, EveryDamagedHeaderByteIsFound) {
  for (const bool empty : {false, true}) {
    write_safetensors(files_, path_, empty ? std::vector<TensorView>{} : samples_.views(), {{"a", "b"}});
    const std::string text = read_file(path_);
    uint64_t size;
    std::memcpy(&size, text.data(), 8);
    for (size_t i = 0; i < 8 + size; ++i) {
      for (int bits : {1, 2, 4, 8, 16, 32, 64, 128, 0x20 ^ 0x09, 255}) {
        std::string bad = text;
        bad[i] = static_cast<char>(bad[i] ^ bits);
        ASSERT_NE(refusal(bad).find("w.bin"), std::string::npos) << "byte " << i << " xor " << bits;
      }
    }
  }
}

TEST_F(Safetensors, EveryDamagedElementIsFoundAndNamed) {
  write_safetensors(files_, path_, samples_.views(), {});
  const std::string text = read_file(path_);
  uint64_t size;
  std::memcpy(&size, text.data(), 8);
  const SafetensorsFile whole(path_);
  std::mt19937 random(3);
  for (int n = 0; n < 10000; ++n) {
    const size_t i = 8 + size + random() % (text.size() - 8 - size);
    std::string bad = text;
    bad[i] = static_cast<char>(bad[i] ^ 1 << random() % 8);
    std::string owner;
    for (const StoredTensor& t : whole.tensors()) {
      if (t.data.data() <= whole.bytes().data() + i && whole.bytes().data() + i < t.data.data() + t.data.size()) {
        owner = in_quotes(t.name);
      }
    }
    ASSERT_NE(refusal(bad).find(owner), std::string::npos) << i;
  }
}

TEST_F(Safetensors, EveryTruncationIsFound) {
  write_safetensors(files_, path_, samples_.views(), {});
  const std::string text = read_file(path_);
  for (size_t n = 0; n < text.size(); ++n) ASSERT_NE(refusal(text.substr(0, n)), "") << n;
  EXPECT_NE(refusal(text.substr(0, text.size() - 1)).find("the file is truncated"), std::string::npos);
  EXPECT_NE(refusal(text + '\0'), "");
}

TEST_F(Safetensors, ForeignFilesWithoutChecksums) {
  std::filesystem::remove(path_);
  spill(path_, foreign(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("a":{"dtype":"I64","shape":[],"data_offsets":[4,12]}})",
                       std::string(12, 'x')));
  const SafetensorsFile file(path_);
  EXPECT_FALSE(file.checksums());
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_FALSE(file.tensors()[0].crc);
}

TEST_F(Safetensors, HostileFiles) {
  const std::string good = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const auto tensor = [](const std::string& entry) { return "{\"t\":" + entry + "}"; };
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"t\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  spill(path_, foreign(tensor(good), "1234"));
  ASSERT_NO_THROW(SafetensorsFile{path_});
  const std::string headers[] = {
      "",
      " ",
      "[]",
      "null",
      "1",
      "\"text\"",
      "{",
      "}",
      "{]",
      "{}x",
      "{}{}",
      " {}",
      "\xef\xbb\xbf{}",
      "\xff\xfe",
      "{\"t\xff\":" + good + "}",
      "{'t':" + good + "}",
      "{\"t\":" + good + ",}",
      "{/**/\"t\":" + good + "}",
      "{\"t\":" + good + ",\"t\":" + good + "}",
      "{\"t\":" + good + ",\"u\":" + good + "}",
      "{}",
      tensor("1"),
      tensor("null"),
      tensor("[]"),
      tensor("{}"),
      tensor("\"F32\""),
      tensor(R"({"dtype":"U8","shape":[4]})"),
      tensor(R"({"shape":[4],"data_offsets":[0,4]})"),
      tensor(R"({"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})"),
      tensor(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1})"),
      entry("\"U9\"", "[4]", "[0,4]"),
      entry("\"u8\"", "[4]", "[0,4]"),
      entry("8", "[4]", "[0,4]"),
      entry("\"F32\"", "[4]", "[0,4]"),
      entry("\"U8\"", "4", "[0,4]"),
      entry("\"U8\"", "[3]", "[0,4]"),
      entry("\"U8\"", "[5]", "[0,4]"),
      entry("\"U8\"", "[-4]", "[0,4]"),
      entry("\"U8\"", "[-2,-2]", "[0,4]"),
      entry("\"U8\"", "[4.0]", "[0,4]"),
      entry("\"U8\"", "[4e0]", "[0,4]"),
      entry("\"U8\"", "[\"4\"]", "[0,4]"),
      entry("\"U8\"", "[[4]]", "[0,4]"),
      entry("\"U8\"", "[null]", "[0,4]"),
      entry("\"U8\"", "[true]", "[0,4]"),
      entry("\"U8\"", "[18446744073709551615]", "[0,4]"),
      entry("\"U8\"", "[9223372036854775807,3]", "[0,4]"),
      entry("\"U8\"", "[4294967296,4294967296]", "[0,4]"),
      entry("\"F32\"", "[4611686018427387905]", "[0,4]"),
      entry("\"U8\"", "[4294967296,4294967296,0]", "[0,0]"),
      entry("\"U8\"", "[1e999]", "[0,4]"),
      entry("\"U8\"", "[4]", "[0]"),
      entry("\"U8\"", "[4]", "[0,4,4]"),
      entry("\"U8\"", "[4]", "4"),
      entry("\"U8\"", "[4]", "[4,0]"),
      entry("\"U8\"", "[4]", "[-1,3]"),
      entry("\"U8\"", "[4]", "[0.0,4.0]"),
      entry("\"U8\"", "[4]", "[1,5]"),
      entry("\"U8\"", "[3]", "[1,4]"),
      entry("\"U8\"", "[3]", "[0,3]"),
      entry("\"U8\"", "[4]", "[18446744073709551612,18446744073709551616]"),
      entry("\"U8\"", "[8]", "[18446744073709551612,4]"),
      entry("\"U8\"", "[1000000000000]", "[0,1000000000000]"),
      R"({"__metadata__":1,"t":)" + good + "}",
      R"({"__metadata__":{"a":1},"t":)" + good + "}",
      R"({"__metadata__":{"a":{"b":"c"}},"t":)" + good + "}",
      R"({"__metadata__":{"a":"b","a":"b"},"t":)" + good + "}",
      R"({"__metadata__":{"crc32c.t":"00000000"},"t":)" + good + "}",
      R"({"__metadata__":{"header_crc32c":"00000000"},"t":)" + good + "}",
      "{\"t\":" + std::string(100000, '['),
      "{\"t\":" + std::string(1000, '[') + std::string(1000, ']') + "}",
  };
  int n = 0;
  for (const std::string& header : headers) {
    const std::string message = refusal(foreign(header, "1234"));
    EXPECT_NE(message.find("w.bin"), std::string::npos) << header.substr(0, 200);
    ++n;
  }
  EXPECT_GE(n, 50);
  for (uint64_t size : {uint64_t{5}, uint64_t{1} << 32, ~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{100'000'001}}) {
    EXPECT_NE(refusal(std::string(reinterpret_cast<const char*>(&size), 8) + "{}  "), "") << size;
  }
  // A pipe, a folder, nothing: refused at once.
  EXPECT_NE(error_of(ExitCode::checkpoint, [&] { SafetensorsFile file(folder_ / "none"); }), "");
  EXPECT_NE(error_of(ExitCode::io, [&] { SafetensorsFile file(folder_.path()); }), "");
}

}  // namespace
}  // namespace ct
