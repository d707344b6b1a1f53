#include "train/run_files.h"

#include <gtest/gtest.h>

#include "base/checks.h"
#include "base/temporary_folder.h"

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
  EXPECT_NO_THROW(require_own_files(folder.path()));
  EXPECT_FALSE(holds_run(folder.path()));
  spill(folder / "metrics.jsonl", "damaged\n{\"event\":\"step\",\"step\":3}\n");
  EXPECT_TRUE(holds_run(folder.path()));
  spill(folder / "best.bin", "damaged, but with \"header_crc32c\" in it");
  EXPECT_NO_THROW(require_own_files(folder.path()));
}

TEST(RunFiles, OthersAreNamed) {
  for (const auto& [name, text] : {std::pair{"config.yaml", "seed: 1\n"},
                                   {"metrics.jsonl", "{\"loss\": 1}\n"},
                                   {"metrics.jsonl", "{\"event\": \"mine\", \"step\": 1}\n"},
                                   {"metrics.csv", "loss\n"},
                                   {"last.bin", "notes"},
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

}  // namespace
}  // namespace ct
