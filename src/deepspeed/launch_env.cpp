#include "deepspeed/launch_env.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/input.h"
#include "base/paths.h"
#include "base/text.h"

namespace ct {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 20;

bool is_variable(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
  return quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

void read_variables(std::string_view text, const std::string& origin, Variables& variables) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, equals));
    if (equals == line.npos || !is_variable(name) || line.find('\0') != line.npos)
      fail(ExitCode::usage, origin, ":", number, ": expects VAR=VAL, found ", in_quotes(line));
    variables[std::string(name)] = unquoted(trimmed(line.substr(equals + 1)));
  }
}

void add_launch_env(Variables& variables) {
  const char *named = std::getenv("DS_ENV_FILE"), *home = std::getenv("HOME");
  const std::string name = named != nullptr ? named : "";
  std::vector<Path> folders;
  if (home != nullptr && *home != '\0') folders.emplace_back(home);
  folders.emplace_back(".");
  Path last;
  for (const Path& folder : folders) {
    if (name.empty() && access(folder.c_str(), X_OK) != 0) continue;  // another user's: sudo and containers keep HOME
    const Path file = folder / (name.empty() ? ".deepspeed_env" : name);
    const PathKind kind = kind_of(file, ExitCode::usage);
    if (kind == PathKind::nothing || kind == PathKind::folder) continue;
    if (!last.empty() && same_place(file, last, ExitCode::usage)) continue;  // the home folder is the working folder
    last = file;
    read_variables(read_input(file, kLargestFile, ExitCode::usage), file.lexically_normal().string(), variables);
  }
  if (last.empty() && !name.empty())
    fail(ExitCode::usage, "DS_ENV_FILE names ", in_quotes(name),
         ", which is neither in the home folder nor in the working folder: give its path, or unset DS_ENV_FILE");
}

}  // namespace ct
