// Each file of a checkpoint with one bit flipped, or cut off somewhere: the damage is found, the file is named, and so
// is the tensor if the damage is in its elements. A sample of the places; with CIFAR_TRAIN_FULL=1 each bit of each
// header and of the JSON files, 10,000 bits of elements, each length within a header, and 1,000 others. A single file
// of weights (best.bin): safetensors_test.cpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "base/faulty_file_system.h"
#include "base/temporary_folder.h"
#include "checkpoint/saving.h"
#include "comm/host/threads.h"

namespace ct {
namespace {

constexpr int64_t kStep = 120;
constexpr int kRanks = 2;

bool is_full() {
  const char* const text = std::getenv("CIFAR_TRAIN_FULL");
  return text != nullptr && *text != '\0' && std::string_view(text) != "0";
}

class Damage : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    run_ranks(kRanks, [&](Communicator& comm) {
      Store store(files_, folder_.path(), kRun);
      save_samples(comm, store, kStep, 1);
      return 0;
    });
    path_ = store_.path_of(kStep) / GetParam();
    text_ = read_file(path_);
    fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(problems(), "");
    if (!has_tensors()) return;
    uint64_t size = 0;
    std::memcpy(&size, text_.data(), sizeof size);
    header_ = sizeof size + size;
  }
  void TearDown() override { close(fd_); }

  bool has_tensors() const { return path_.extension() != ".json"; }
  /// What is said about the checkpoint; empty: it is loaded.
  std::string problems() const {
    std::string all;
    try {
      for (const Error& problem : store_.verify(kStep)) all += str(problem.what(), "\n");
      store_.load(kStep);
      EXPECT_EQ(all, "") << "and yet it is loaded";
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::checkpoint) << e.what();
      return all + e.what();
    }
  }
  /// The name in quotes of the tensor whose elements contain that byte.
  std::string tensor_at(size_t at) const {
    const SafetensorsFile file(path_, SafetensorsFile::Check::header);
    for (const StoredTensor& t : file.tensors())
      if (t.data.data() <= file.bytes().data() + at && file.bytes().data() + at < t.data.data() + t.data.size())
        return in_quotes(t.name);
    ADD_FAILURE() << "no tensor has byte " << at;
    return "";
  }
  void put(size_t at, char byte) const { ASSERT_EQ(pwrite(fd_, &byte, 1, static_cast<off_t>(at)), 1); }
  void expect_found(const std::string& tensor, const std::string& where) {
    const std::string said = problems();
    ++cases_;
    if (said.find(path_.filename().native()) != std::string::npos && said.find(tensor) != std::string::npos) return;
    ++missed_;
    ADD_FAILURE() << where << ": " << said;
  }
  void flip(size_t at, int bit) {
    const std::string tensor = at < header_ || !has_tensors() ? "" : tensor_at(at);
    put(at, static_cast<char>(text_[at] ^ 1 << bit));
    expect_found(tensor, str("byte ", at, ", bit ", bit));
    put(at, text_[at]);
  }
  void cut(size_t bytes) {
    ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    expect_found("", str("cut to ", bytes, " bytes"));
    ASSERT_EQ(pwrite(fd_, text_.data() + bytes, text_.size() - bytes, static_cast<off_t>(bytes)),
              static_cast<ssize_t>(text_.size() - bytes));
  }

  static inline const RunIdentity kRun{"run-1", "cnn"};
  TemporaryFolder folder_;
  QuickFileSystem files_;
  Store store_{files_, folder_.path(), kRun};
  Path path_;
  std::string text_;
  size_t header_ = 0;
  int fd_ = -1, cases_ = 0, missed_ = 0;
};

TEST_P(Damage, IsFoundAndNamed) {
  const bool full = is_full();
  const size_t described = has_tensors() ? header_ : text_.size(), every = full ? 1 : 61;  // an odd number: all bits
  for (size_t bit = 0; bit < described * 8; bit += every) flip(bit / 8, static_cast<int>(bit % 8));
  for (size_t bytes = 0; bytes < described; bytes += full ? 1 : 29) cut(bytes);
  std::mt19937 random(7);
  const size_t elements = text_.size() - described;
  for (int n = 0; elements > 0 && n < (full ? 10000 : 40); ++n)
    flip(described + random() % elements, static_cast<int>(random() % 8));
  for (int n = 0; elements > 0 && n < (full ? 1000 : 10); ++n) cut(described + random() % elements);
  EXPECT_EQ(problems(), "") << "the instrument itself: nothing is left of the damage";
  std::printf("%s: %d cases, %d not found\n", GetParam(), cases_, missed_);
}

INSTANTIATE_TEST_SUITE_P(Files, Damage,
                         testing::Values("weights.safetensors", "optim-00-of-02.safetensors",
                                         "optim-01-of-02.safetensors", "state.json", "manifest.json"));

}  // namespace
}  // namespace ct
