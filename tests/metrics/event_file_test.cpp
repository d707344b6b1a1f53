#include "metrics/event_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>

#include "base/faulty_file_system.h"
#include "base/temporary_folder.h"

namespace ct {
namespace {

using namespace std::string_literals;

bool keep_all(std::string_view, int64_t) { return true; }

class Events : public testing::Test {
 protected:
  /// One event file after another, as a run that is resumed at `x` makes them.
  EventFile begin(int64_t x, const EventFile::Keep& keep = keep_all, const std::string& writer = "a run") {
    return {files, folder.path(), writer, x, keep};
  }
  /// How often a value lies in the n-th file of the folder.
  size_t count(size_t file, const SummaryValue& value) const {
    const std::string text = read_file(folder / list_folder(folder.path()).at(file));
    size_t found = 0;
    for (size_t at = text.find(value); at != std::string::npos; at = text.find(value, at + 1)) ++found;
    return found;
  }
  size_t files_there() const { return list_folder(folder.path()).size(); }

  FileSystem files;
  TemporaryFolder folder;
};

TEST(Summaries, AreProtocolBuffers) {
  EXPECT_EQ(scalar_summary("ab", 1),
            "\x0a\x02"
            "ab"
            "\x15\0\0\x80\x3f"s);
  // tag, metadata of the plugin "text", a tensor of one string
  EXPECT_EQ(text_summary("t", "hi"),
            "\x0a\x01t"
            "\x4a\x08\x0a\x06\x0a\x04text"
            "\x42\x0c\x08\x07\x12\x04\x12\x02\x08\x01\x42\x02hi"s);
}

TEST(Summaries, HistogramsCountEveryValueOnce) {
  const std::vector<std::vector<float>> cases = {{1, 2, 3}, {5}, {-1, -1, -1}, {0, 1e-30f}, {-3e38f, 3e38f}};
  for (const std::vector<float>& values : cases) {
    const SummaryValue text = histogram_summary("h", values);
    constexpr size_t kBuckets = 30;
    ASSERT_GT(text.size(), kBuckets * 16);
    double counts[kBuckets], limits[kBuckets];
    std::memcpy(counts, text.data() + text.size() - sizeof counts, sizeof counts);
    std::memcpy(limits, text.data() + text.size() - sizeof counts - 3 - sizeof limits, sizeof limits);
    EXPECT_EQ(std::accumulate(std::begin(counts), std::end(counts), 0.0), static_cast<double>(values.size()));
    EXPECT_TRUE(std::ranges::is_sorted(limits));
    EXPECT_GE(limits[kBuckets - 1] * (1 + 1e-12) + 1e-12, *std::ranges::max_element(values));
  }
}

TEST_F(Events, BeginWithTheirVersionAndWriter) {
  begin(7);
  const std::string text = read_file(folder / list_folder(folder.path()).at(0));
  EXPECT_NE(text.find("\x1a\x0d"
                      "brain.Event:2"
                      "\x52\x07\x0a\x05"
                      "a run"),
            std::string::npos);
  EXPECT_NE(text.find("\x10\x07\x3a\x02\x08\x01"s), std::string::npos);  // step 7, SessionLog START
  EXPECT_EQ(writer_of_events(folder / list_folder(folder.path()).at(0)), "a run");
}

TEST_F(Events, OfAnEarlierFileMoveWhereTensorBoardWouldForgetThem) {
  const SummaryValue early = scalar_summary("early", 0.25), late = scalar_summary("late", 0.5),
                     wrong = scalar_summary("wrong", 0.75);
  {
    EventFile first = begin(0);
    first.write(5, {early});
    first.write(1000, {late});
    first.write(6, {wrong});
  }
  begin(6, [](std::string_view tag, int64_t) { return tag != "wrong"; });
  ASSERT_EQ(files_there(), 2u);
  EXPECT_EQ(count(0, early), 1u);
  EXPECT_EQ(count(0, late), 0u);
  EXPECT_EQ(count(0, wrong), 0u);
  EXPECT_EQ(count(1, early), 0u);
  EXPECT_EQ(count(1, late), 1u);
  EXPECT_EQ(count(1, wrong), 0u);
}

TEST_F(Events, AFileThatIsLeftWithNothingGoes) {
  begin(0).write(3, {scalar_summary("a", 1)});
  begin(3);
  begin(0, [](std::string_view, int64_t) { return false; });
  EXPECT_EQ(files_there(), 1u);
}

TEST_F(Events, OfOthersAreLeftAlone) {
  begin(0, keep_all, "another run").write(9, {scalar_summary("a", 1)});
  std::ofstream(folder / "events.out.tfevents.1.torch") << "no event file";
  std::ofstream(folder / "notes.txt") << "x";
  const std::string other = list_folder(folder.path()).at(1), text = read_file(folder / other);
  begin(0, [](std::string_view, int64_t) { return false; });
  EXPECT_EQ(files_there(), 4u);
  EXPECT_EQ(read_file(folder / other), text);
  EXPECT_EQ(read_file(folder / "events.out.tfevents.1.torch"), "no event file");
  EXPECT_EQ(writer_of_events(folder / "events.out.tfevents.1.torch"), "");
  EXPECT_EQ(writer_of_events(folder / "notes.txt"), "");
  EXPECT_EQ(writer_of_events(folder / "nothing"), "");
}

TEST_F(Events, EveryFileIsReadAfterTheEarlierOnes) {
  for (int i = 0; i < 4; ++i) begin(i).write(i, {scalar_summary("file" + std::to_string(i), i)});
  ASSERT_EQ(files_there(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(count(i, scalar_summary("file" + std::to_string(i), i)), 1u) << i;
}

/// A crash cuts a file anywhere, and a disk may damage any byte: what is whole before that stays.
TEST_F(Events, OfDamagedFilesStayUpToTheDamage) {
  {
    EventFile first = begin(0);
    first.write(1, {scalar_summary("a", 1)});
    first.write(2, {scalar_summary("b", 2)});
  }
  const std::string name = list_folder(folder.path()).at(0), whole = read_file(folder / name);
  const size_t after_a = whole.find(scalar_summary("a", 1)) + scalar_summary("a", 1).size() + 4;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const bool cut : {true, false}) {
      std::string damaged = cut ? whole.substr(0, at) : whole;
      if (!cut) damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      for (const std::string& old : list_folder(folder.path())) std::filesystem::remove(folder / old);
      std::ofstream(folder / name) << damaged;
      const bool ours = writer_of_events(folder / name) == "a run";
      begin(3);
      const bool has_a = ours && at >= after_a;
      EXPECT_EQ(files_there(), ours && !has_a ? 1u : 2u) << at;
      if (!has_a) continue;
      EXPECT_EQ(count(0, scalar_summary("a", 1)), 1u) << at;
      EXPECT_EQ(count(0, scalar_summary("b", 2)), 0u) << at;
    }
  }
}

/// Whatever fails or kills the program while it goes back: the next start finds every value, once.
TEST_F(Events, SurviveADiskThatFails) {
  const SummaryValue early = scalar_summary("early", 0.25), late = scalar_summary("late", 0.5);
  /// Goes back with that fault at an operation. How many operations there were.
  const auto go_back = [&](Fault fault, int at, uint32_t seed = 0) {
    for (const std::string& old : list_folder(folder.path())) std::filesystem::remove(folder / old);
    {
      EventFile first = begin(0);
      first.write(5, {early});
      first.write(1000, {late});
    }
    TemporaryFolder backups;
    FaultyFileSystem faulty(fault, at, backups.path(), seed);
    try {
      EventFile(faulty, folder.path(), "a run", 6, keep_all);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::io) << e.what();
    } catch (const Crash&) {
    }
    return faulty.operations();
  };
  const int operations = go_back(Fault::none, -1);
  ASSERT_GT(operations, 5);
  for (const Fault fault : {Fault::crash, Fault::power_loss, Fault::eio, Fault::enospc, Fault::full}) {
    for (int at = 0; at < operations * (fault == Fault::power_loss ? 8 : 1); ++at) {
      go_back(fault, at % operations, static_cast<uint32_t>(at / operations));
      begin(6);
      size_t early_ones = 0, late_ones = 0;
      for (size_t file = 0; file < files_there(); ++file) {
        early_ones += count(file, early);
        late_ones += count(file, late);
      }
      EXPECT_EQ(early_ones, 1u) << at;
      EXPECT_EQ(late_ones, 1u) << at;
      EXPECT_EQ(count(files_there() - 1, late), 1u) << at;
    }
  }
}

}  // namespace
}  // namespace ct
