#include <gtest/gtest.h>

#include <string_view>

#include "comm/exercise.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--rank-program") return ct::rank_program(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
