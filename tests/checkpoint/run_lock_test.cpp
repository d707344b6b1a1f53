#include "checkpoint/run_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "checkpoint/samples.h"

namespace ct {
namespace {

TEST(RunLock, ASecondRunGetsPidAndHost) {
  TemporaryFolder folder;
  FileSystem files;
  const Path out = folder / "runs" / "cnn";
  {
    RunLock lock(files, out);
    EXPECT_EQ(lock.warning(), "");
    const std::string message = error_of(ExitCode::usage, [&] { RunLock second(files, out); });
    EXPECT_NE(message.find("pid " + std::to_string(getpid())), std::string::npos) << message;
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    EXPECT_NE(message.find(host), std::string::npos) << message;
  }
  RunLock again(files, out);
}

TEST(RunLock, ReleasedByDeath) {
  TemporaryFolder folder;
  FileSystem files;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    RunLock lock(files, folder.path());
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::string message = error_of(ExitCode::usage, [&] { RunLock second(files, folder.path()); });
  EXPECT_NE(message.find("pid " + std::to_string(child)), std::string::npos) << message;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(RunLock(files, folder.path()));
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace ct
