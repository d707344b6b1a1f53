// Files of KEY=VALUE lines, from which job scripts take their environment.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ct {

struct EnvEntry {
  std::string key, value;
  std::string place;  // "job.env:3"
};

/// The entries in order. Blank lines and those that begin with # are skipped, `export` before a key means nothing. A
/// value may stand in quotes; $NAME and ${NAME} become what an earlier line says, else what the environment does, but
/// not in single quotes. Nothing is ever run. Error(usage) with file and line for anything else.
std::vector<EnvEntry> read_env_file(const std::filesystem::path& path);

}  // namespace ct
