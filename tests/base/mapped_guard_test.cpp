#include "base/mapped_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/temporary_folder.h"

namespace ct {
namespace {

const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

class MappedGuard : public testing::Test {
 protected:
  Path write(const std::string& name, size_t pages) {
    std::ofstream(folder_ / name, std::ios::binary) << std::string(pages * page, 'x');
    return folder_ / name;
  }
  static char at(const MappedFile& file, size_t place) {
    return static_cast<char>(*const_cast<const volatile std::byte*>(file.bytes().data() + place));
  }
  TemporaryFolder folder_;
};

std::string problem(const MappedFile& file) {
  try {
    file.require_unchanged(ExitCode::data);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  return "";
}

TEST_F(MappedGuard, ACutFileReadsAsZerosAndSaysSo) {
  const Path path = write("cut", 8);
  MappedFile file(path), other(write("whole", 8));
  std::filesystem::resize_file(path, 2 * page);
  EXPECT_EQ(at(file, page), 'x');
  EXPECT_FALSE(file.was_cut());
  EXPECT_EQ(at(file, 5 * page + 7), '\0');
  EXPECT_TRUE(file.was_cut());
  EXPECT_EQ(at(file, 8 * page - 1), '\0');
  EXPECT_EQ(at(file, 3 * page), '\0');
  EXPECT_EQ(at(file, page), 'x');
  EXPECT_NE(problem(file).find("cut"), std::string::npos);
  EXPECT_EQ(at(other, 7 * page), 'x');
  EXPECT_FALSE(other.was_cut());
  EXPECT_EQ(problem(other), "");
  // It is still its own when moved.
  MappedFile moved(std::move(file));
  EXPECT_TRUE(moved.was_cut());
  EXPECT_NE(problem(moved).find((folder_ / "cut").string()), std::string::npos);
}

TEST_F(MappedGuard, WhatWasWrittenOverIsNamedAndWhatWasReplacedIsNot) {
  const Path path = write("file", 2);
  const MappedFile file(path);
  FileSystem files;
  write_file_atomic(files, path, "another");
  EXPECT_EQ(problem(file), "");
  remove_file(files, path);
  EXPECT_EQ(problem(file), "");
  const MappedFile again(write("file", 2));
  std::ofstream(path, std::ios::app) << "more";
  EXPECT_NE(problem(again).find("changed while it was in use; restore"), std::string::npos);
  const MappedFile touched(path);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_NE(problem(touched).find("start again if its content is the same"), std::string::npos) << problem(touched);
}

TEST_F(MappedGuard, ManyThreadsMayMeetTheEnd) {
  const Path path = write("cut", 64);
  std::vector<MappedFile> files;
  for (int i = 0; i < 8; ++i) files.emplace_back(path);
  std::filesystem::resize_file(path, 0);
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 64; ++i) EXPECT_EQ(at(files[t / 2], (i * 7 + t) % 64 * page), '\0');
      const MappedFile another(path);  // the list changes meanwhile
    });
  threads.clear();
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(files[i].was_cut(), i < 4);
}

TEST_F(MappedGuard, OtherBusErrorsEndTheProcessAsBefore) {
  const Path path = write("guarded", 1);
  const auto unguarded = [&] {
    const MappedFile file(path);
    FileSystem files;
    const File open(files, write("unguarded", 1), O_RDWR);
    auto* const bytes = static_cast<volatile char*>(mmap(nullptr, page, PROT_READ, MAP_PRIVATE, open.fd(), 0));
    EXPECT_EQ(ftruncate(open.fd(), 0), 0);
    [[maybe_unused]] const char gone = bytes[0];
  };
  const auto nobody_else = [] { std::signal(SIGBUS, SIG_DFL); };  // a sanitizer, for one
  EXPECT_EXIT((nobody_else(), unguarded()), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        nobody_else();
        const MappedFile file(path);
        raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
  // A handler that was there first is asked.
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { _exit(42); });
        unguarded();
      },
      testing::ExitedWithCode(42), "");
  // One that came later and calls ours in turn, too.
  EXPECT_EXIT(
      {
        nobody_else();
        const MappedFile file(path);
        static struct sigaction ours {};
        sigaction(SIGBUS, nullptr, &ours);
        struct sigaction theirs {};
        theirs.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
          ours.sa_sigaction(signal, info, context);
        };
        theirs.sa_flags = SA_SIGINFO;
        sigaction(SIGBUS, &theirs, nullptr);
        unguarded();
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace ct
