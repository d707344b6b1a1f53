#include "base/held_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/checks.h"
#include "base/paths.h"
#include "base/temporary_folder.h"

namespace ct {
namespace {

TEST(HeldFolder, StaysTheFolderWhateverItsName) {
  TemporaryFolder folder;
  FileSystem files;
  make_folders(files, folder / "run");
  const HeldFolder held(folder / "run");
  EXPECT_EQ(held.fate(), HeldFolder::Fate::in_place);
  rename_file(files, folder / "run", folder / "aside");
  EXPECT_EQ(held.fate(), HeldFolder::Fate::renamed);
  make_folders(files, folder / "run");  // another one
  EXPECT_EQ(held.fate(), HeldFolder::Fate::renamed);
  write_file_atomic(files, held.path() / "a", "text");
  EXPECT_EQ(read_file(folder / "aside" / "a"), "text");
  EXPECT_TRUE(list_folder(folder / "run").empty());
  EXPECT_EQ(held.name(), absolute_of(folder / "aside"));
  EXPECT_EQ(in_quotes((held.path() / "a").native()), in_quotes((held.name() / "a").native()));
  rename_file(files, folder / "aside", folder / "gone");
  std::filesystem::remove_all(folder / "gone");
  EXPECT_EQ(held.fate(), HeldFolder::Fate::removed);
  const std::string line =
      error_of(ExitCode::io, [&] { write_file_atomic(files, held.path() / "ckpt" / "a", "text"); });
  EXPECT_NE(line.find("gone/ckpt"), std::string::npos) << line;
  EXPECT_FALSE(is_there(folder / "gone"));
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
