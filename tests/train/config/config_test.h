// What tests of whole configurations share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "train/config/load.h"

namespace ct {

namespace fs = std::filesystem;

inline const fs::path kShipped = fs::path(__FILE__).parent_path() / ".." / ".." / ".." / "configs";

class ConfigTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  Config load(const std::string& text, const std::vector<std::string>& sets = {}) {
    return load_config({.files = {write("c.yaml", text)}, .sets = sets}, &warnings_);
  }
  /// The error of a configuration, without the folder's name.
  std::string error(const ConfigSources& sources) {
    try {
      load_config(sources, &warnings_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      std::string text = error.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      const std::string prefix = folder_.string() + "/";
      for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
      return text;
    }
    return "no error";
  }
  std::string error(const std::string& text, const std::vector<std::string>& sets = {}) {
    return error(ConfigSources{.files = {write("c.yaml", text)}, .sets = sets});
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::vector<std::string> warnings_;
};

inline const std::string kAdam = "optimizer: {type: Adam}\n";

/// Throws for another type.
template <class Type>
Type optimizer(const Config& config) {
  return std::get<Type>(config.optimizer.value());
}

#define EXPECT_PART(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace ct
