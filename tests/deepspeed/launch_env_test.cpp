#include "deepspeed/launch_env.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/error.h"

namespace ct {
namespace {

TEST(LaunchEnv, LinesOfAFile) {
  Variables variables{{"A", "old"}};
  read_variables("A=1\n\n# a comment = none\n B = two words \r\nC=\"quoted\"\nD=a=b=c\nE=\nF='it''s'\nG=\"",
                 ".deepspeed_env", variables);
  EXPECT_EQ(
      variables,
      (Variables{
          {"A", "1"}, {"B", "two words"}, {"C", "quoted"}, {"D", "a=b=c"}, {"E", ""}, {"F", "it''s"}, {"G", "\""}}));
}

TEST(LaunchEnv, ABadLineIsNamed) {
  for (const char* bad : {"export A=1", "NCCL_DEBUG", "=x", "1A=x", "A B=x", "a-b=x"}) {
    try {
      Variables variables;
      read_variables(std::string("OK=1\n") + bad, "job.env", variables);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_EQ(error.what(), std::string("job.env:2: expects VAR=VAL, found '") + bad + "'");
    }
  }
  Variables variables;
  EXPECT_THROW(read_variables(std::string_view("A=\0b", 4), "x", variables), Error);
}

TEST(LaunchEnv, ANamedFileMustBeThere) {
  Variables variables;
  setenv("DS_ENV_FILE", "there-is-no-such-file", 1);
  EXPECT_THROW(add_launch_env(variables), Error);
  unsetenv("DS_ENV_FILE");
}

}  // namespace
}  // namespace ct
