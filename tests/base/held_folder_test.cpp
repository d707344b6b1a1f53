#include "base/held_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/temporary_folder.h"

namespace ct {
namespace {

TEST(HeldFolder, WritesGoToItWhereverItIs) {
  const TemporaryFolder temp;
  const Path run = temp / "run", moved = temp / "moved";
  FileSystem system;
  make_folders(system, run / "ckpt");
  HeldFolder held(run);
  write_file_atomic(held, run / "ckpt" / "a", "first");
  EXPECT_EQ(read_file(run / "ckpt" / "a"), "first");

  rename_file(system, run, moved);
  make_folders(system, run / "ckpt");
  write_file_atomic(system, run / "ckpt" / "a", "another's");
  write_file_atomic(system, run / "b", "another's");
  rename_file(held, run / "ckpt" / "a", run / "b");
  File(held, run / "c", O_WRONLY | O_CREAT).write("c");
  make_folders(held, run / "new");
  EXPECT_EQ(list_folder(run), (std::vector<std::string>{"b", "ckpt"}));
  EXPECT_EQ(read_file(run / "b"), "another's");
  EXPECT_EQ(read_file(run / "ckpt" / "a"), "another's");
  EXPECT_EQ(list_folder(moved), (std::vector<std::string>{"b", "c", "ckpt", "new"}));
  EXPECT_EQ(read_file(moved / "b"), "first");
  std::vector<std::string> names;
  EXPECT_EQ(held.list(run / "ckpt", names), 0);
  EXPECT_TRUE(names.empty());
  remove_file(held, run / "b");
  EXPECT_TRUE(is_there(run / "b"));
  EXPECT_FALSE(is_there(moved / "b"));
}

TEST(HeldFolder, OtherPathsAreTheSystems) {
  const TemporaryFolder temp;
  FileSystem system;
  make_folders(system, temp / "run");
  HeldFolder held;
  write_file_atomic(held, temp / "run" / "before", "");
  held.hold(temp / "run");
  rename_file(held, temp / "run", temp / "moved");  // its own name
  write_file_atomic(held, temp / "running", "beside");
  EXPECT_EQ(list_folder(temp.path()), (std::vector<std::string>{"moved", "running"}));
  EXPECT_THROW(HeldFolder(temp / "nowhere"), Error);
}

}  // namespace
}  // namespace ct
