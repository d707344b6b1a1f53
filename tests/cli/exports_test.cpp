#include "cli/launch/exports.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

TEST(Exports, VariablesOfLibraries) {
  const char* environment[] = {"NCCL_DEBUG=INFO", "UCX_TLS=tcp",       "PYTHONPATH=/a:/b", "HOME=/root", "NCCL",
                               "MV2_X=",          "MLFLOW_RUN_ID=a=b", "BASH_FUNC_x%%=()", nullptr};
  setenv("DS_ENV_FILE", "/dev/null", 1);
  EXPECT_EQ(exports_of_launch(environment), (Exports{{"NCCL_DEBUG", "INFO"},
                                                     {"UCX_TLS", "tcp"},
                                                     {"PYTHONPATH", "/a:/b"},
                                                     {"MV2_X", ""},
                                                     {"MLFLOW_RUN_ID", "a=b"}}));
  unsetenv("DS_ENV_FILE");
}

}  // namespace
}  // namespace ct
