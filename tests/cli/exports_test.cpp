#include "cli/launch/exports.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ct {
namespace {

TEST(Exports, LinesOfAFile) {
  Exports exports{{"A", "old"}};
  read_exports("A=1\n\n# a comment = none\n B = two words \r\nC=\"quoted\"\nD=a=b=c\nE=\nF='it''s'\nG=\"",
               ".deepspeed_env", exports);
  EXPECT_EQ(
      exports,
      (Exports{
          {"A", "1"}, {"B", "two words"}, {"C", "quoted"}, {"D", "a=b=c"}, {"E", ""}, {"F", "it''s"}, {"G", "\""}}));
}

TEST(Exports, ABadLineIsNamed) {
  for (const char* bad : {"export A=1", "NCCL_DEBUG", "=x", "1A=x", "A B=x", "a-b=x"}) {
    try {
      Exports exports;
      read_exports(std::string("OK=1\n") + bad, "job.env", exports);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_EQ(error.what(), std::string("job.env:2: expects VAR=VAL, found '") + bad + "'");
    }
  }
  Exports exports;
  EXPECT_THROW(read_exports(std::string_view("A=\0b", 4), "x", exports), Error);
}

TEST(Exports, VariablesOfLibraries) {
  const char* environment[] = {"NCCL_DEBUG=INFO", "UCX_TLS=tcp",       "PYTHONPATH=/a:/b", "HOME=/root", "NCCL",
                               "MV2_X=",          "MLFLOW_RUN_ID=a=b", "BASH_FUNC_x%%=()", nullptr};
  setenv("DS_ENV_FILE", "/dev/null", 1);
  EXPECT_EQ(exports_of_launch(environment), (Exports{{"NCCL_DEBUG", "INFO"},
                                                     {"UCX_TLS", "tcp"},
                                                     {"PYTHONPATH", "/a:/b"},
                                                     {"MV2_X", ""},
                                                     {"MLFLOW_RUN_ID", "a=b"}}));
  setenv("DS_ENV_FILE", "there-is-no-such-file", 1);
  EXPECT_THROW(exports_of_launch(environment), Error);
  unsetenv("DS_ENV_FILE");
}

}  // namespace
}  // namespace ct
