// What tests of files and errors share.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace ct {

inline void spill(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

/// The message of the Error that f throws with this code; "" when it throws none or another.
template <class F>
std::string error_of(ExitCode code, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code() == code && std::string(e.what()).find('\n') == std::string::npos ? e.what() : "";
  }
  return "";
}

}  // namespace ct
