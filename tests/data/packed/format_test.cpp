#include "data/packed/format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/crc32c.h"
#include "base/error.h"

namespace ct {
namespace {

using PackedBytes = std::vector<std::byte>;

constexpr size_t kPictures = 30;  // bytes of each
const std::vector<std::string> kPackedClasses = {"crab", "große Möwe"};

/// Two pictures to train on and one to test on.
PackedBytes whole() {
  const uint64_t begin = packed_front_bytes(3, 2, 4 + 12 + 3 + 4 + 1);
  PackedBytes file(begin + 3 * kPictures);
  for (size_t i = begin; i < file.size(); ++i) file[i] = static_cast<std::byte>(i);
  const auto picture = [&](int i, int label, std::string name) {
    const uint64_t at = begin + static_cast<uint64_t>(i) * kPictures;
    return PackedPicture{at, kPictures, crc32c(std::span(file).subspan(at, kPictures)), label, std::move(name)};
  };
  const std::vector<PackedPicture> train = {picture(0, 1, "a/b"), picture(1, 0, "c\n/d")}, test = {picture(2, 1, "e")};
  const PackedBytes front = packed_front(kPackedClasses, train, test, file.size());
  EXPECT_EQ(front.size(), begin);
  std::memcpy(file.data(), front.data(), front.size());
  return file;
}

std::string format_problem(const PackedBytes& file) {
  try {
    read_packed_index(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  return "";
}

/// The file with a change that its checksums vouch for.
PackedBytes vouched(const std::function<void(PackedHeader&, PackedEntry*, uint32_t* class_ends, char* text)>& change) {
  PackedBytes file = whole();
  PackedHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  const auto index = std::span(file).subspan(sizeof header, header.index_bytes);
  auto* const entries = reinterpret_cast<PackedEntry*>(index.data());
  auto* const ends = reinterpret_cast<uint32_t*>(entries + 3);
  const size_t index_bytes = header.index_bytes;
  change(header, entries, ends, reinterpret_cast<char*>(ends + 2));
  header.index_crc = crc32c(std::span(file).subspan(sizeof header, index_bytes));
  header.header_crc = 0;
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)));
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

void expect_word(const PackedBytes& file, const std::string& word) {
  const std::string found = format_problem(file);
  EXPECT_NE(found.find(word), std::string::npos) << word << " in: " << found;
}

TEST(PackedFormat, IsReadAsItWasWritten) {
  const PackedBytes file = whole();
  const PackedIndex index = read_packed_index(file);
  EXPECT_EQ(index.class_names, kPackedClasses);
  ASSERT_EQ(index.of(Split::train).size(), 2u);
  ASSERT_EQ(index.of(Split::test).size(), 1u);
  EXPECT_EQ(index.of(Split::train)[0].label, 1u);
  EXPECT_EQ(index.of(Split::train)[1].label, 0u);
  EXPECT_EQ(index.name(Split::train, 0), "a/b");
  EXPECT_EQ(index.name(Split::train, 1), "c\n/d");
  EXPECT_EQ(index.name(Split::test, 0), "e");
  const PackedEntry& last = index.of(Split::test)[0];
  EXPECT_EQ(crc32c(std::span(file).subspan(last.offset, last.bytes)), last.crc);
  EXPECT_EQ(last.offset + last.bytes, file.size());
  EXPECT_TRUE(is_packed(file));
}

TEST(PackedFormat, EveryBitOfHeaderAndIndexCounts) {
  PackedBytes file = whole();
  const size_t front = packed_front_bytes(3, 2, 24);
  for (size_t bit = 0; bit < 8 * front; ++bit) {
    const std::byte mask{static_cast<uint8_t>(1 << bit % 8)};
    file[bit / 8] ^= mask;
    EXPECT_NE(format_problem(file), "") << "bit " << bit;
    file[bit / 8] ^= mask;
  }
  EXPECT_EQ(format_problem(file), "");
}

TEST(PackedFormat, EveryLengthCounts) {
  const PackedBytes file = whole();
  EXPECT_EQ(format_problem({}), "empty");
  for (size_t size = 1; size < file.size(); ++size) {
    const PackedBytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(format_problem(cut), "") << size;
    if (size >= sizeof(PackedHeader)) expect_word(cut, "truncated: " + std::to_string(size) + " bytes where ");
  }
  PackedBytes longer = file;
  longer.push_back({});
  expect_word(longer, "too long");
}

TEST(PackedFormat, OtherFilesAndVersionsAreNamed) {
  expect_word(PackedBytes(1000), "not a packed file");
  expect_word(vouched([](PackedHeader& h, auto*, auto*, auto*) { h.version = 2; }),
              "written by another version of the program, in format 2");
  PackedBytes as_text = whole();
  as_text.erase(as_text.begin() + 6);  // what a transfer as text leaves of \r\n
  expect_word(as_text, "not a packed file");
}

TEST(PackedFormat, NumbersThatAChecksumVouchesForAreCheckedToo) {
  const auto header = [](auto change) { return vouched([=](PackedHeader& h, auto*, auto*, auto*) { change(h); }); };
  const auto entry = [](auto change) { return vouched([=](auto&, PackedEntry* e, auto*, auto*) { change(e[1]); }); };
  for (const PackedBytes& file :
       {header([](auto& h) { h.train = 0; }), header([](auto& h) { h.test = 0; }), header([](auto& h) { h.train = 3; }),
        header([](auto& h) { h.train = ~uint64_t{0} / 24; }), header([](auto& h) { h.test = uint64_t{1} << 61; }),
        header([](auto& h) { h.classes = 0; }), header([](auto& h) { h.classes = 1 << 20; }),
        header([](auto& h) { h.text_bytes = ~uint64_t{0} - 100; }), header([](auto& h) { h.index_bytes = 1; }),
        header([](auto& h) { h.index_bytes = ~uint64_t{0}; })})
    expect_word(file, "its header contradicts itself");
  for (const PackedBytes& file :
       {entry([](auto& e) { e.offset = 0; }), entry([](auto& e) { e.offset = 64; }),
        entry([](auto& e) { e.bytes = 0; }), entry([](auto& e) { e.bytes = 1000; }),
        entry([](auto& e) { e.offset = ~uint64_t{0}; }), entry([](auto& e) { e.bytes = ~uint32_t{0}; })})
    expect_word(file, "picture 1 is not within the file");
  expect_word(entry([](auto& e) { e.label = 2; }), "picture 1 has label 2, the classes are 0 to 1");
  expect_word(entry([](auto& e) { e.name_end = 3; }), "the name of picture 1");
  expect_word(entry([](auto& e) { e.name_end = ~uint32_t{0}; }), "the name of picture 1");
  expect_word(vouched([](auto&, PackedEntry* e, auto*, auto*) { --e[2].name_end; }), "bytes after the last name");
  expect_word(vouched([](auto&, auto*, uint32_t* ends, auto*) { ends[1] = 1000; }), "the name of class 1");
  expect_word(vouched([](auto&, auto*, uint32_t* ends, auto*) { ends[1] = ends[0]; }),
              "the name of class 1 is not a line");
  expect_word(vouched([](auto&, auto*, auto*, char* text) { text[1] = '\n'; }), "the name of class 0 is not a line");
  expect_word(vouched([](auto&, auto*, auto*, char* text) { text[7] = '\xff'; }), "the name of class 1 is not a line");
}

}  // namespace
}  // namespace ct
