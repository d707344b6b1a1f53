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

TEST(RunLock, SecondRunIsToldPidAndHost) {
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

TEST(ResetRun, DeletesOnlyItsOwnFiles) {
  TemporaryFolder folder;
  FileSystem files;
  make_folders(files, folder / "ckpt" / "step-00000001");
  make_folders(files, folder / "ckpt" / ".tmp-step-00000002");
  make_folders(files, folder / "tb");
  make_folders(files, folder / "metrics.csv");  // a folder with one of our names is not ours
  for (const char* name : {"config.yaml", "metrics.jsonl", "last.bin", "best.bin", ".tmp-last.bin", ".lock",
                           "ckpt/step-00000001/manifest.json", "ckpt/step-00000001/weights.safetensors",
                           "ckpt/.tmp-step-00000002/.tmp-state.json", "tb/events.out.tfevents.1"}) {
    spill(folder / name, "x");
  }
  spill(folder / "thesis.txt", "precious");
  spill(folder / "ckpt" / "notes.txt", "precious");
  reset_run(files, folder.path());
  EXPECT_EQ(list_folder(folder.path()), (std::vector<std::string>{".lock", "ckpt", "metrics.csv", "thesis.txt"}));
  EXPECT_EQ(list_folder(folder / "ckpt"), std::vector<std::string>{"notes.txt"});
}

TEST(ResetRun, RefusesWhatIsNoRun) {
  TemporaryFolder folder;
  FileSystem files;
  EXPECT_NO_THROW(reset_run(files, folder / "none"));
  EXPECT_NO_THROW(reset_run(files, folder.path()));
  spill(folder / "config.yaml", "of another program");
  EXPECT_NE(error_of(ExitCode::usage, [&] { reset_run(files, folder.path()); }), "");
  EXPECT_EQ(list_folder(folder.path()), std::vector<std::string>{"config.yaml"});
}

TEST(ResetRun, LinksAreNotFollowed) {
  TemporaryFolder folder, other;
  FileSystem files;
  make_folders(files, other / "step-00000001");
  spill(other / "step-00000001" / "weights.safetensors", "precious");
  spill(folder / "metrics.jsonl", "x");
  std::filesystem::create_directory_symlink(other.path(), folder / "ckpt");
  reset_run(files, folder.path());
  EXPECT_EQ(read_file(other / "step-00000001" / "weights.safetensors"), "precious");
}

}  // namespace
}  // namespace ct
