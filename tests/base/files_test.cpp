#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include "base/checks.h"
#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/new_folder.h"
#include "base/paths.h"
#include "base/temporary_folder.h"

namespace ct {
namespace {

template <class F>
std::string io_error(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::io) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Files, ReadsWhatWasWritten) {
  TemporaryFolder folder;
  FileSystem files;
  write_file_atomic(files, folder / "a", "one");
  EXPECT_EQ(read_file(folder / "a"), "one");
  write_file_atomic(files, folder / "a", "");
  EXPECT_EQ(read_file(folder / "a"), "");
  EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{"a"});
}

TEST(Files, ErrorsNamePathAndReason) {
  TemporaryFolder folder;
  FileSystem files;
  const std::string missing = io_error([&] { read_file(folder / "none"); });
  EXPECT_NE(missing.find("none"), std::string::npos);
  EXPECT_NE(missing.find("No such file"), std::string::npos);
  write_file_atomic(files, folder / "a", "12345");
  EXPECT_EQ(read_file(folder / "a", 5), "12345");
  EXPECT_NE(io_error([&] { read_file(folder / "a", 4); }).find("5 bytes"), std::string::npos);
  io_error([&] { read_file(folder.path()); });
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  io_error([&] { read_file(folder / "pipe"); });  // and does not wait for a writer
  std::filesystem::create_symlink(folder / "a", folder / "link");
  EXPECT_EQ(read_file(folder / "link"), "12345");
  io_error([&] { read_file(folder / "link", 100, MappedFile::Links::refuse); });
  io_error([&] { make_folders(files, folder / "a" / "b"); });
}

TEST(Files, QuotesKeepOneLine) {
  EXPECT_EQ(in_quotes("a\nb\x1b"), "'a\\x0ab\\x1b'");
  EXPECT_LT(in_quotes(std::string(5000, 'x')).size(), 300u);
}

TEST(Files, AtomicWriteLeavesOldOrNewAtEveryFault) {
  for (Fault fault : {Fault::crash, Fault::power_loss, Fault::eio, Fault::enospc, Fault::edquot, Fault::estale,
                      Fault::full, Fault::eintr, Fault::partial}) {
    for (int n = 0; n < 13 * (fault == Fault::power_loss ? 16 : 1); ++n) {
      const int at = n % 13;
      TemporaryFolder folder, backups;
      QuickFileSystem real;
      write_file_atomic(real, folder / "a", "the old contents");
      try {
        FaultyFileSystem files(fault, at, backups.path(), static_cast<uint32_t>(n));
        write_file_atomic(files, folder / "a", "the new, longer contents");
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::io);
        EXPECT_TRUE(fault != Fault::eintr && fault != Fault::partial) << e.what();
        const bool disk_works = fault != Fault::crash && fault != Fault::power_loss;
        EXPECT_TRUE(!disk_works || list_folder(folder.path()).size() == 1) << "something is left behind at " << at;
      } catch (const Crash&) {
      }
      const std::string now = read_file(folder / "a");
      EXPECT_TRUE(now == "the old contents" || now == "the new, longer contents") << now << " at " << at;
      write_file_atomic(real, folder / "a", "third");  // nothing left behind is in the way
      EXPECT_EQ(read_file(folder / "a"), "third");
    }
  }
}

/// Renames, perhaps, and says what a server says that is asked for the same a second time.
class LostReply : public QuickFileSystem {
 public:
  explicit LostReply(bool renames) : renames_(renames) {}
  int rename(const Path& from, const Path& to) override {
    if (renames_) QuickFileSystem::rename(from, to);
    return errno = ENOENT, -1;
  }

 private:
  bool renames_;
};

TEST(Files, ARenameWhoseReplyIsLostIsDone) {
  TemporaryFolder folder;
  LostReply files(true), nothing(false);
  write_file_atomic(files, folder / "a", "one");
  write_file_atomic(files, folder / "a", "two");
  EXPECT_EQ(read_file(folder / "a"), "two");
  EXPECT_NE(io_error([&] { write_file_atomic(nothing, folder / "a", "three"); }).find("No such file"),
            std::string::npos);
  EXPECT_EQ(read_file(folder / "a"), "two");
}

TEST(Files, AFolderWhoseReplyIsLostIsMade) {
  TemporaryFolder folder;
  LostReply files(true), nothing(false);
  const auto fill = [](const Path& temporary) { std::ofstream(temporary / "a") << "one"; };
  EXPECT_TRUE(make_filled_folder(files, folder / "made", fill));
  EXPECT_EQ(read_file(folder / "made" / "a"), "one");
  for (const char* name : {"unmade", "a/b/unmade"})  // and what was made for it is removed
    io_error([&] { make_filled_folder(nothing, folder / name, fill); });
  EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{"made"});
}

TEST(Files, FoldersThatKilledProcessesHaveLeftAreRemoved) {
  TemporaryFolder folder;
  FileSystem files;
  for (const char* name : {".tmp-made-0", ".tmp-made-1", ".tmp-made-x", ".tmp-other-0"}) {
    make_folders(files, folder / name);
    std::ofstream(folder / name / "a") << "one";
    std::filesystem::last_write_time(folder / name,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::minutes(2));
  }
  make_folders(files, folder / ".tmp-made-2");  // young: perhaps another host's, whose locks are not seen here
  const int living = ::open((folder / ".tmp-made-1").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(files.lock(living), 0);
  std::filesystem::last_write_time(folder / ".tmp-made-1",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(make_filled_folder(files, folder / "made", [&](const Path& temporary) {
    EXPECT_EQ(temporary, folder / ".tmp-made-0");
    EXPECT_TRUE(list_folder(temporary).empty());
    remove_left_folders(files, folder / "made");  // as another process would
    EXPECT_TRUE(is_folder(temporary));
  }));
  ::close(living);
  EXPECT_EQ(list_folder(folder.path()),
            (std::vector<std::string>{".tmp-made-1", ".tmp-made-2", ".tmp-made-x", ".tmp-other-0", "made"}));
}

TEST(Files, WithoutLocksTheirAgeDecides) {
  class NoLocks : public FileSystem {
   public:
    int lock(int) override {
      errno = ENOLCK;
      return -1;
    }
  } files;
  TemporaryFolder folder;
  const Path old = folder / ".tmp-made-0", fresh = folder / ".tmp-made-1";
  for (const Path& path : {old, fresh}) make_folders(files, path);
  std::filesystem::last_write_time(old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(make_filled_folder(files, folder / "made", [](const Path&) {}));
  EXPECT_EQ(list_folder(folder.path()), (std::vector<std::string>{".tmp-made-1", "made"}));
}

TEST(Files, TheLongestNameCanBeWritten) {
  TemporaryFolder folder;
  FileSystem files;
  const std::string name(255, 'n');
  write_file_atomic(files, folder / name, "one");
  write_file_atomic(files, folder / name, "two");
  EXPECT_EQ(read_file(folder / name), "two");
  EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{name});
  const std::string message = io_error([&] { write_file_atomic(files, folder / (name + "n"), "one"); });
  EXPECT_NE(message.find("give a shorter path"), std::string::npos) << message;
}

TEST(Files, LineFileCutsAPieceOfALine) {
  TemporaryFolder folder;
  FileSystem files;
  for (const std::string& start : {std::string(), std::string("a\nb\n"), "a\n" + std::string(10000, 'b')}) {
    std::ofstream(folder / "lines") << start << "piece";
    {
      LineFile lines(files, folder / "lines");
      lines.append("c");
      lines.append("d");
      lines.sync();
    }
    EXPECT_EQ(read_file(folder / "lines"), start.substr(0, start.rfind('\n') + 1) + "c\nd\n");
    std::filesystem::remove(folder / "lines");
  }
}

TEST(Files, LineFileIsAsBeforeAfterAFailure) {
  TemporaryFolder folder, backups;
  for (Fault fault : {Fault::enospc, Fault::full}) {
    std::filesystem::remove(folder / "lines");
    // enospc: create, the folder's fsync, its close, write, write
    FaultyFileSystem files(fault, fault == Fault::full ? 1 : 4, backups.path());
    LineFile lines(files, folder / "lines");
    lines.append("first");
    io_error([&] { lines.append("second"); });
    EXPECT_EQ(read_file(folder / "lines"), "first\n");
  }
}

/// Each of these returns once its change would survive a power failure.
TEST(Files, ChangesThatReturnedSurviveAPowerFailure) {
  const std::vector<std::function<void(FileSystem&, const Path&)>> changes = {
      [](FileSystem& files, const Path& at) { make_folders(files, at / "a" / "b"); },
      [](FileSystem& files, const Path& at) { write_file_atomic(files, at / "file", "new"); },
      [](FileSystem& files, const Path& at) { link_or_copy(files, at / "file", at / "copy"); },
      [](FileSystem& files, const Path& at) {
        LineFile lines(files, at / "lines");
        lines.append("one");
        lines.sync();
      }};
  for (size_t i = 0; i < changes.size(); ++i)
    for (uint32_t seed = 0; seed < 20; ++seed) {
      TemporaryFolder folder, backups, wanted;
      FileSystem real;
      FaultyFileSystem files(Fault::power_loss, 1000, backups.path(), seed);
      spill(folder / "file", "old");
      spill(wanted / "file", "old");
      changes[i](real, wanted.path());
      changes[i](files, folder.path());
      files.lose_power();
      ASSERT_EQ(list_folder(folder.path()), list_folder(wanted.path())) << i;
      for (const std::string& name : list_folder(folder.path()))
        if (is_folder(folder / name))
          EXPECT_EQ(list_folder(folder / name), list_folder(wanted / name));
        else
          EXPECT_EQ(read_file(folder / name), read_file(wanted / name)) << i;
    }
}

/// Has no links, and cuts a file to what was copied of it first.
class CuttingFileSystem : public QuickFileSystem {
 public:
  explicit CuttingFileSystem(const Path& copied) : copied_(copied) {}
  int link(const Path&, const Path&) override { return errno = EPERM, -1; }
  ssize_t write(int fd, std::span<const std::byte> bytes) override {
    std::filesystem::resize_file(copied_, bytes.size());
    return QuickFileSystem::write(fd, bytes);
  }

 private:
  const Path copied_;
};

TEST(Files, APieceOfAFileIsNoCopyOfIt) {
  TemporaryFolder folder;
  spill(folder / "file", std::string(size_t{3} << 20, 'a'));
  spill(folder / "copy", "old");
  CuttingFileSystem files(folder / "file");
  const std::string message = io_error([&] { link_or_copy(files, folder / "file", folder / "copy"); });
  EXPECT_NE(message.find("it was truncated while it was read"), std::string::npos) << message;
  EXPECT_EQ(read_file(folder / "copy"), "old");
  EXPECT_EQ(list_folder(folder.path()), (std::vector<std::string>{"copy", "file"}));
}

TEST(Files, RemovesOnlyWhatIsKnown) {
  TemporaryFolder folder;
  FileSystem files;
  const auto ours = [](const std::string& n) { return n == "a" || n == "link" || n == "sub"; };
  make_folders(files, folder / "x" / "sub");
  make_folders(files, folder / "x/sub/");
  write_file_atomic(files, folder / "precious", "p");
  write_file_atomic(files, folder / "x" / "a", "a");
  write_file_atomic(files, folder / "x" / "b", "b");
  std::filesystem::create_symlink(folder / "precious", folder / "x" / "link");
  EXPECT_FALSE(remove_known(files, folder / "x", ours));
  EXPECT_EQ(list_folder(folder / "x"), (std::vector<std::string>{"b", "sub"}));
  EXPECT_EQ(read_file(folder / "precious"), "p");
  std::filesystem::remove(folder / "x" / "b");
  std::filesystem::remove(folder / "x" / "sub");
  EXPECT_TRUE(remove_known(files, folder / "x", ours));
  EXPECT_TRUE(remove_known(files, folder / "x", ours));
}

TEST(Paths, NothingIsNotTheSameAsNotToBeSeen) {
  TemporaryFolder folder;
  spill(folder / "file", "x");
  std::filesystem::create_symlink("file", folder / "link");
  std::filesystem::create_symlink("nothing", folder / "dangling");
  std::filesystem::create_symlink("circle", folder / "circle");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind_of(folder / "link"), PathKind::file);
  EXPECT_EQ(kind_of_entry(folder / "link"), PathKind::link);
  EXPECT_EQ(kind_of(folder / "dangling"), PathKind::nothing);
  EXPECT_EQ(kind_of(folder / "file" / "below"), PathKind::nothing);
  EXPECT_EQ(kind_of(folder / "pipe"), PathKind::other);
  EXPECT_EQ(kind_of(folder.path()), PathKind::folder);
  EXPECT_TRUE(same_place(folder / "link", folder / "file"));
  EXPECT_FALSE(same_place(folder / "dangling", folder / "file"));
  EXPECT_NE(error_of(ExitCode::data, [&] { kind_of(folder / "circle", ExitCode::data); }), "");
  EXPECT_NE(error_of(ExitCode::usage, [&] { kind_of(std::string(300, 'x'), ExitCode::usage); }), "");
}

TEST(Files, WhatIsWrittenToLinksLandsWhereTheyLead) {
  TemporaryFolder folder;
  FileSystem files;
  make_folders(files, folder / "other");
  spill(folder / "other" / "there", "old");
  std::filesystem::create_symlink("other/there", folder / "link");
  std::filesystem::create_symlink("link", folder / "chain");
  std::filesystem::create_symlink("other/new", folder / "dangling");
  write_file_atomic(files, folder / "chain", "new");
  write_file_atomic(files, folder / "dangling", "first");
  EXPECT_EQ(read_file(folder / "other" / "there"), "new");
  EXPECT_EQ(read_file(folder / "other" / "new"), "first");
  for (const char* link : {"link", "chain", "dangling"})
    EXPECT_EQ(kind_of_entry(folder / link), PathKind::link) << link;
  link_or_copy(files, folder / "chain", folder / "copy");
  EXPECT_EQ(kind_of_entry(folder / "copy"), PathKind::file);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(error_of(ExitCode::io, [&] { replaced_by_writing(folder / "pipe"); }), "");
  EXPECT_NE(error_of(ExitCode::io, [&] { replaced_by_writing(folder / "other"); }), "");
}

}  // namespace
}  // namespace ct
