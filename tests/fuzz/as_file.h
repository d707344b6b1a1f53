// Inputs of readers that open a file.
#pragma once

#include <cstdio>
#include <string>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "target.h"

namespace ct::fuzz {

/// A folder of this process's targets.
inline const Path& folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

/// The input as the content of a file; the next one of that name replaces it.
inline Path as_file(std::string_view name, Input input) {
  const Path path = folder() / name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  check(file != nullptr && std::fwrite(input.data(), 1, input.size(), file) == input.size(), "no file ", path.native());
  std::fclose(file);
  return path;
}
inline Path as_file(std::string_view name, std::string_view text) {
  return as_file(name, std::as_bytes(std::span(text)));
}

}  // namespace ct::fuzz
