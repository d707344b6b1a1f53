// Every target reads the inputs in cases/: a valid one of each kind, and those that once found a fault.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "target.h"

namespace ct::fuzz {
namespace {

TEST(Fuzz, KeptCasesAreReadOrRefusedWithinTheirBounds) {
  const Path cases = CT_FUZZ_CASES;
  ASSERT_FALSE(targets().empty());
  for (const Target& target : targets()) {
    const auto names = list_folder(cases / target.name);
    EXPECT_FALSE(names.empty()) << target.name;
    for (const std::string& name : names) {
      SCOPED_TRACE(str(target.name, "/", name));
      const std::string input = read_file(cases / target.name / name);
      EXPECT_NO_THROW(EXPECT_EQ(problem_with(target, std::as_bytes(std::span(input))), ""));
    }
  }
}

TEST(Fuzz, EveryFolderOfCasesHasItsTarget) {
  for (const std::string& name : list_folder(CT_FUZZ_CASES))
    EXPECT_EQ(std::ranges::count(targets(), name, &Target::name), 1) << name;
}

}  // namespace
}  // namespace ct::fuzz
