#include "deepspeed/env_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

class EnvFile : public testing::Test {
 protected:
  void SetUp() override {
    setenv("CT_TEST_OUTER", "outer", 1);
    setenv("HOME", "/home/tester", 1);
    unsetenv("CT_TEST_ABSENT");
  }

  void TearDown() override { setenv("HOME", home_.c_str(), 1); }

  std::vector<EnvEntry> read(const std::string& text) {
    std::ofstream(folder_ / "job.env", std::ios::binary) << text;
    return read_env_file(folder_ / "job.env");
  }
  std::string value(const std::string& text) { return read(text).back().value; }
  std::string error(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      const std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      return what.substr(what.find("job.env"));
    }
    return "no error";
  }

  const std::string home_ = getenv("HOME") != nullptr ? getenv("HOME") : "/";
  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(EnvFile, LinesAreReadAsAJobScriptExportsThem) {
  const auto entries =
      read("# a job\n\nPATH_TO=./configs/default.yaml\r\n  export  CUDA=/apps/cuda/11.7.1  \nexported=1\nEMPTY=\n");
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].key, "PATH_TO");
  EXPECT_EQ(entries[0].value, "./configs/default.yaml");
  EXPECT_TRUE(entries[0].place.ends_with("job.env:3"));
  EXPECT_EQ(entries[1].key, "CUDA");
  EXPECT_EQ(entries[1].value, "/apps/cuda/11.7.1");
  EXPECT_EQ(entries[2].key, "exported");
  EXPECT_EQ(entries[3].value, "");
  EXPECT_TRUE(read("").empty());
}

TEST_F(EnvFile, QuotesAndNamesAsInAShellButNothingIsRun) {
  EXPECT_EQ(value("A=\"a b\""), "a b");
  EXPECT_EQ(value("A='$HOME `x` \"'"), "$HOME `x` \"");
  EXPECT_EQ(value("A=a=b#c"), "a=b#c");
  EXPECT_EQ(value("A=/x\nB=$A/y"), "/x/y");
  EXPECT_EQ(value("A=/x\nB=\"${A}y z\""), "/xy z");
  EXPECT_EQ(value("A=$CT_TEST_OUTER"), "outer");
  EXPECT_EQ(value("CT_TEST_OUTER=inner\nA=$CT_TEST_OUTER"), "inner");
}

TEST_F(EnvFile, HomeBeginsAValueWithoutQuotes) {
  EXPECT_EQ(value("A=~"), "/home/tester");
  EXPECT_EQ(value("A=~/runs/$CT_TEST_OUTER"), "/home/tester/runs/outer");
  EXPECT_EQ(value("HOME=/elsewhere\nA=~/runs"), "/elsewhere/runs");
  EXPECT_EQ(value("A=$HOME/runs"), "/home/tester/runs");
  for (const char* line : {"A=a~", "A=/~/b", "A='~/b'", "A=\"~/b\""})
    EXPECT_NE(value(line).find('~'), std::string::npos) << line;
  EXPECT_NE(error("A=~other/b").find("not another user's folder"), std::string::npos);
  unsetenv("HOME");
  EXPECT_NE(error("A=~/b").find("$HOME is set neither"), std::string::npos);
}

TEST_F(EnvFile, ACommentMayFollowBehindABlank) {
  for (const char* line :
       {"A=/x # a comment", "A=/x\t#", "A='/x' # 'quoted'", "A=\"/x\"  #x", "export A=/x # $CT_TEST_ABSENT `"})
    EXPECT_EQ(value(line), "/x") << line;
  EXPECT_EQ(value("A= # nothing"), "");
  EXPECT_EQ(value("A=#x"), "#x");
  EXPECT_EQ(value("A=/x#y # z"), "/x#y");
  EXPECT_EQ(value("A='a # b'"), "a # b");
}

TEST_F(EnvFile, AnythingElseIsRefusedWithItsLine) {
  EXPECT_EQ(error("A=1\nB"), "job.env:2: expects KEY=VALUE, found 'B'");
  for (const char* line : {"=1", "1A=1", "A =1", "A B=1", "export", "set A=1"})
    EXPECT_NE(error(line).find("expects KEY=VALUE"), std::string::npos) << line;
  EXPECT_EQ(error("A=1\n\nA=2"), "job.env:3: A is given twice; remove one");
  for (const char* line : {"A=$(rm)", "A=$", "A=${B", "A=${}", "A=$1", "A=\"$(x)\""})
    EXPECT_NE(error(line).find("expected a name after $"), std::string::npos) << line;
  for (const char* line :
       {"A=`x`", "A=a\\", "A=a'b'", "A=a\"b\"", "A=\"`x`\"", "A=\"a\\b\"", "A=a;b", "A=a&", "A=a|b", "A=a>b"})
    EXPECT_NE(error(line).find("a shell would interpret the"), std::string::npos) << line;
  for (const char* line : {"A=a b", "A= b", "A=a\\ b", "A='a'b", "A='a' b", "A=\"a\"b\"", "A='a'#b"})
    EXPECT_NE(error(line).find("after the value"), std::string::npos) << line;
  for (const char* line : {"A=\"a", "A='", "A='a\"b"})
    EXPECT_NE(error(line).find("is not closed"), std::string::npos) << line;
  EXPECT_EQ(error("A=$CT_TEST_ABSENT"),
            "job.env:1: $CT_TEST_ABSENT is set neither by an earlier line nor in the environment: set it, or write the "
            "value without it");
}

TEST_F(EnvFile, ValuesThatDoubleEachOtherComeToAnEnd) {
  std::string text = "A0=xxxxxxxxxx\n";
  for (int i = 1; i < 60; ++i) {
    const std::string before = "$A" + std::to_string(i - 1);
    text += "A" + std::to_string(i) + "=" + before + before + "\n";
  }
  EXPECT_NE(error(text).find("the value is too long"), std::string::npos);
}

TEST_F(EnvFile, GarbageGivesOneLine) {
  EXPECT_NE(error(std::string("A=\xff\n")).find("is not UTF-8 text"), std::string::npos);
  EXPECT_NE(error(std::string("A=\0b\n", 5)).find("is not UTF-8 text"), std::string::npos);
  EXPECT_NE(error(std::string(2 << 20, '#')).find("larger than 1 MiB"), std::string::npos);
  EXPECT_THROW(read_env_file(folder_), Error);
  EXPECT_THROW(read_env_file(folder_ / "absent"), Error);
}

}  // namespace
}  // namespace ct
