#include "base/input.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace ct {
namespace {

using namespace std::chrono_literals;
constexpr size_t kLimit = size_t{1} << 20;

std::string problem(const Path& path, PipePatience patience = {}) {
  try {
    read_input(path, kLimit, ExitCode::data, patience);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  return "nothing";
}

TEST(Input, FilesAndDevices) {
  TemporaryFolder folder;
  FileSystem files;
  const Path path = folder.path() / "file";
  write_file_atomic(files, path, "text");
  EXPECT_EQ(read_input(path, kLimit, ExitCode::data), "text");
  EXPECT_EQ(read_input("/dev/null", kLimit, ExitCode::data), "");
  EXPECT_NE(problem("/dev/zero").find("it is larger than 1 MiB"), std::string::npos);
  EXPECT_NE(problem(folder.path()).find("it is a folder"), std::string::npos);
  EXPECT_NE(problem(folder.path() / "absent").find("No such file"), std::string::npos);
}

TEST(Input, PipesOfAnotherProgram) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const Path path = "/proc/self/fd/" + std::to_string(ends[0]);
  const std::string all(300'000, 'x');  // more than a pipe holds
  std::thread writer([&] {
    for (size_t at = 0; at < all.size();) at += static_cast<size_t>(write(ends[1], all.data() + at, all.size() - at));
    close(ends[1]);
  });
  EXPECT_EQ(read_input(path, kLimit, ExitCode::data), all);
  writer.join();
  EXPECT_NE(problem(path).find("this pipe is empty"), std::string::npos);
  close(ends[0]);
}

TEST(Input, APipeThatNobodyWritesTo) {
  TemporaryFolder folder;
  const Path path = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  testing::internal::CaptureStderr();
  const std::string said = problem(path, {.named = 1ms, .given_up = 20ms});
  EXPECT_NE(said.find("this pipe has delivered nothing"), std::string::npos) << said;
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "waiting for '" + path.string() + "': this pipe delivers nothing\n");
  std::thread writer([&] {
    const int fd = open(path.c_str(), O_WRONLY);
    EXPECT_EQ(write(fd, "late", 4), 4);
    close(fd);
  });
  EXPECT_EQ(read_input(path, kLimit, ExitCode::data), "late");
  writer.join();
}

}  // namespace
}  // namespace ct
