#include "cli/config_lookup.h"

#include "train/config/config_test.h"

namespace ct {
namespace {

TEST_F(ConfigTest, FilesAreFoundWhereTheContractLooks) {
  fs::create_directories(folder_ / "source");
  fs::create_directories(folder_ / "share");
  write("source/a.yaml", "");
  write("share/a.yaml", "");
  write("share/b.yaml", "");
  const std::vector<fs::path> folders = {folder_ / "source", folder_ / "share"};
  EXPECT_EQ(find_config("a.yaml", folders), folder_ / "source/a.yaml");
  EXPECT_EQ(find_config("b.yaml", folders), folder_ / "share/b.yaml");
  EXPECT_EQ(find_config((folder_ / "share/a.yaml").string(), folders), folder_ / "share/a.yaml");
  EXPECT_EQ(find_config("share/b.yaml", folders), folder_ / "share/b.yaml");  // as configs/NAME
  for (const char* name : {"missing.yaml", "", "/missing/c.yaml"}) {
    try {
      find_config(name, folders, "--deepspeed_config");
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_TRUE(std::string(error.what()).starts_with("--deepspeed_config '")) << error.what();
      const bool searched = std::string(name) == "missing.yaml";
      EXPECT_EQ(std::string(error.what()).find((folder_ / "share").string()) != std::string::npos, searched)
          << error.what();
    }
  }
  EXPECT_EQ(installed_configs("/usr/local/bin/cifar-train"), "/usr/local/share/cifar-train/configs");
}

}  // namespace
}  // namespace ct
