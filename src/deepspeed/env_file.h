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

/// The entries in order, as a shell reads them. Blank lines and those that begin with # are skipped, `export` before a
/// key means nothing. A value may stand in quotes; without them it ends at a blank, behind which only a comment may
/// follow. $NAME and ${NAME} become what an earlier line says, else what the environment does, but not in single
/// quotes; ~ and ~/ begin a value without quotes as $HOME does. Nothing is ever run: what else a shell would act on is
/// Error(usage) with file and line, as is any other line.
std::vector<EnvEntry> read_env_file(const std::filesystem::path& path);

}  // namespace ct
