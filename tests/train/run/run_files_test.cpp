#include "train/run/run_files.h"

#include <gtest/gtest.h>

#include "base/checks.h"
#include "base/temporary_folder.h"
#include "metrics/png.h"

namespace ct {
namespace {

TEST(RunFiles, ItsOwnAreKnownAgain) {
  TemporaryFolder folder;
  EXPECT_NO_THROW(require_own_files(folder / "none"));
  EXPECT_NO_THROW(require_own_files(folder.path()));
  EXPECT_FALSE(holds_run(folder.path()));
  spill(folder / "config.yaml", sealed_config("seed: 1\n"));
  spill(folder / "metrics.csv", "event,step,epoch,loss\n");
  spill(folder / "metrics.jsonl", "");
  spill(folder / "sample_grid.png", png_of(std::vector<uint8_t>(12), 4, 3, kProgramName));
  spill(folder / "evaluation.png", png_of(std::vector<uint8_t>(12), 4, 3, kProgramName));
  spill(folder / "evaluation.json", std::string(kEvaluationBeginning));
  EXPECT_NO_THROW(require_own_files(folder.path()));
  EXPECT_FALSE(holds_run(folder.path()));
  spill(folder / "metrics.jsonl", "damaged\n{\"event\":\"step\",\"step\":3}\n");
  EXPECT_TRUE(holds_run(folder.path()));
  spill(folder / "best.bin", "damaged, but with \"header_crc32c\" in it");
  FileSystem files;
  EXPECT_TRUE(set_aside_foreign_files(files, folder.path()).empty());
}

TEST(RunFiles, InARunOthersAreSetAside) {
  TemporaryFolder folder;
  FileSystem files;
  spill(folder / "metrics.jsonl", "{\"event\":\"start\",\"step\":0}\n");
  for (int i = 0; i < 2; ++i) {
    spill(folder / "config.yaml", str("edited ", i));
    spill(folder / "best.bin", "zeros");
    EXPECT_NO_THROW(require_own_files(folder.path()));
    EXPECT_EQ(set_aside_foreign_files(files, folder.path()).size(), 2u);
  }
  EXPECT_EQ(read_file(folder / "config.yaml.aside"), "edited 0");
  EXPECT_EQ(read_file(folder / "config.yaml.aside-2"), "edited 1");
  EXPECT_EQ(list_folder(folder.path()),
            (std::vector<std::string>{"best.bin.aside", "best.bin.aside-2", "config.yaml.aside", "config.yaml.aside-2",
                                      "metrics.jsonl"}));
}

TEST(RunFiles, OthersAreNamed) {
  for (const auto& [name, text] : {std::pair{"config.yaml", "seed: 1\n"},
                                   {"metrics.jsonl", "{\"loss\": 1}\n"},
                                   {"metrics.jsonl", "{\"event\": \"mine\", \"step\": 1}\n"},
                                   {"metrics.csv", "loss\n"},
                                   {"last.bin", "notes"},
                                   {"sample_grid.png", "\x89PNG\r\n\x1a\n of another program"},
                                   {"evaluation.png", "\x89PNG\r\n\x1a\n of another program"},
                                   {"evaluation.json", "{\"format\":\"mine\"}"},
                                   {"best.bin", "\"header_crc32c\" of another run"}}) {
    TemporaryFolder folder;
    spill(folder / name, text);
    const std::string line = error_of(ExitCode::usage, [&] { require_own_files(folder.path()); });
    EXPECT_NE(line.find(name), std::string::npos) << name << ": " << line;
  }
  TemporaryFolder folder;
  std::string text = sealed_config("seed: 1\n");
  spill(folder / "config.yaml", text.replace(text.find('1'), 1, "2"));
  EXPECT_NE(error_of(ExitCode::usage, [&] { require_own_files(folder.path()); }), "");
}

TEST(RunFiles, FoldersInThePlaceOfFilesAreNamedInARunToo) {
  for (const char* name :
       {"metrics.jsonl", "last.bin", ".tmp-config.yaml", ".tmp-metrics.jsonl", "ckpt/latest", "ckpt/.tmp-latest"}) {
    TemporaryFolder folder;
    std::filesystem::create_directories(folder / name);
    std::filesystem::create_directories(folder / "ckpt" / "step-00000001");
    const std::string line = error_of(ExitCode::usage, [&] { require_own_files(folder.path()); });
    EXPECT_NE(line.find(str(name, "' is a folder, in whose place a run writes a file: move it away")), line.npos)
        << line;
  }
}

TEST(RunFiles, WhatAPowerFailureLeavesIsOurs) {
  const std::string record = R"({"event":"start","step":0,"version":"0.1.0","model":"cnn"})";
  for (const auto& [name, text] :
       {std::pair{"metrics.jsonl", record}, {"metrics.csv", std::string("event,step,epoch,split")}})
    for (size_t bytes = 0; bytes <= text.size(); ++bytes) {
      TemporaryFolder folder;
      spill(folder / name, text.substr(0, bytes));
      EXPECT_NO_THROW(require_own_files(folder.path())) << name << " of " << bytes << " bytes";
    }
}

}  // namespace
}  // namespace ct
