#include <gtest/gtest.h>

#include "base/error.h"
#include "base/paths.h"
#include "base/temporary_folder.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/samples.h"
#include "checkpoint/store.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

TEST(ResetRun, DeletesOnlyItsOwnFiles) {
  TemporaryFolder folder;
  FileSystem files;
  make_folders(files, folder / "ckpt" / "step-00000001");
  make_folders(files, folder / "ckpt" / ".tmp-step-00000002");
  make_folders(files, folder / "metrics.csv");  // a folder with one of our names is not ours
  for (const char* name : {"config.yaml", "metrics.jsonl", "last.bin", "best.bin", ".tmp-last.bin", ".lock",
                           "ckpt/step-00000001/manifest.json", "ckpt/step-00000001/weights.safetensors",
                           "ckpt/.tmp-step-00000002/.tmp-state.json"}) {
    spill(folder / name, "x");
  }
  spill(folder / "ckpt" / "latest", "step-00000001\n");
  spill(folder / "ckpt" / ".tmp-latest", "step-00000001\n");
  spill(folder / "thesis.txt", "precious");
  spill(folder / "ckpt" / "notes.txt", "precious");
  reset_run(files, folder.path());
  EXPECT_EQ(list_folder(folder.path()),
            (std::vector<std::string>{".lock", "ckpt", "config.yaml", "metrics.csv", "thesis.txt"}));
  EXPECT_EQ(list_folder(folder / "ckpt"), std::vector<std::string>{"notes.txt"});
}

TEST(ResetRun, ALatestOfAnotherProgramStays) {
  TemporaryFolder folder;
  FileSystem files;
  make_folders(files, folder / "ckpt");
  spill(folder / "metrics.jsonl", "x");
  spill(folder / "ckpt" / "latest", "global_step120");
  reset_run(files, folder.path());
  EXPECT_EQ(list_folder(folder / "ckpt"), std::vector<std::string>{"latest"});
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

/// Otherwise the new run would continue from what a link leads to.
TEST(ResetRun, LinksInThePlaceOfCheckpointsAreRemoved) {
  TemporaryFolder folder, other;
  FileSystem files;
  spill(other / "weights.safetensors", "precious");
  make_folders(files, folder / "ckpt");
  spill(folder / "metrics.jsonl", "x");
  std::filesystem::create_directory_symlink(other.path(), folder / "ckpt" / "step-00000001");
  reset_run(files, folder.path());
  EXPECT_EQ(kind_of_entry(folder / "ckpt" / "step-00000001"), PathKind::nothing);
  EXPECT_EQ(read_file(other / "weights.safetensors"), "precious");
}

TEST(ResetRun, LinksAreNotFollowed) {
  TemporaryFolder folder, other;
  FileSystem files;
  make_folders(files, other / "step-00000001");
  spill(other / "step-00000001" / "weights.safetensors", "precious");
  spill(folder / "metrics.jsonl", "x");
  std::filesystem::create_directory_symlink(other.path(), folder / "ckpt");
  EXPECT_NE(error_of(ExitCode::usage, [&] { reset_run(files, folder.path()); }), "");
  EXPECT_EQ(read_file(other / "step-00000001" / "weights.safetensors"), "precious");
}

}  // namespace
}  // namespace ct
