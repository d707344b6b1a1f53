#include "base/core_binding.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/error.h"

namespace ct {
namespace {

std::string error(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "no error";
}

TEST(CoreBinding, Lists) {
  EXPECT_EQ(parse_core_list("3"), (std::vector<int>{3}));
  EXPECT_EQ(parse_core_list("0,2-4,6"), (std::vector<int>{0, 2, 3, 4, 6}));
  for (const char* bad : {"", "x", "1-", "-1", "1--2", "1-2-3", "0,", "0, 1", "1x", "99999999999", "5000"})
    EXPECT_NE(
        error([&] { parse_core_list(bad); }).find("range must be either a number or two number separated by dash"),
        std::string::npos)
        << bad;
  EXPECT_TRUE(
      error([] { parse_core_list("4-2"); }).starts_with("Bad range: '4-2', range end must larger than or equal"));
  for (const char* bad : {"1,1", "2,1", "0-3,3-4"})
    EXPECT_NE(error([&] { parse_core_list(bad); }).find("sub ranges must not overlap"), std::string::npos) << bad;
}

TEST(CoreBinding, EqualShares) {
  EXPECT_EQ(share_of({0, 1, 2, 3, 4}, 0, 2), (std::vector<int>{0, 1}));
  EXPECT_EQ(share_of({0, 1, 2, 3, 4}, 1, 2), (std::vector<int>{2, 3}));
  EXPECT_TRUE(error([] { share_of({0, 1}, 0, 3); }).starts_with("At least one core must be assigned to each rank: 2 "));
}

/// What a child process that has bound itself may run on.
std::bitset<kMaxCpus> bound(const std::string& list, int index, int parts) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    try {
      bind_to_share(list, index, parts);
    } catch (const Error&) {
      _exit(1);
    }
    const std::bitset<kMaxCpus> cpus = allowed_cpus();
    _exit(write(ends[1], &cpus, sizeof cpus) == sizeof cpus ? 0 : 2);
  }
  std::bitset<kMaxCpus> cpus;
  close(ends[1]);
  EXPECT_EQ(read(ends[0], &cpus, sizeof cpus), static_cast<ssize_t>(sizeof cpus));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return cpus;
}

TEST(CoreBinding, RanksShareWhatIsAllowed) {
  const std::bitset<kMaxCpus> allowed = allowed_cpus();
  EXPECT_EQ(bound("", 0, 1), allowed);
  size_t first = 0;
  while (!allowed[first]) ++first;
  const std::bitset<kMaxCpus> one = bound(std::to_string(first), 0, 1);
  EXPECT_EQ(one.count(), 1u);
  EXPECT_TRUE(one[first]);
}

}  // namespace
}  // namespace ct
