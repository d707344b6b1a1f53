// Environment files of job scripts, with KEY=VALUE lines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ct {

struct EnvEntry {
  std::string key, value;
  std::string place;  // "job.env:3"
};

/// The entries in order, with the meaning of a shell. Blank lines and lines that begin with # are skipped, and `export`
/// before a key is ignored. A value may be quoted; an unquoted value ends at a blank, after which only a comment may
/// follow. $NAME and ${NAME}, except in single quotes, are replaced by the value of an earlier line or of the
/// environment; ~ and ~/ at the beginning of an unquoted value are replaced by $HOME. No shell runs: any other shell
/// syntax and any other line is Error(usage) with file and line.
std::vector<EnvEntry> read_env_file(const std::filesystem::path& path);

}  // namespace ct
