#include "deepspeed/env_file.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "train/config/document.h"

namespace ct {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr size_t kLongestValue = 4096;  // so that lines that double each other's values come to an end

bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return begins_name(c) || (c >= '0' && c <= '9'); }

/// The name that `text` begins with.
std::string_view name_of(std::string_view text) {
  if (text.empty() || !begins_name(text[0])) return "";
  return text.substr(0, static_cast<size_t>(std::ranges::find_if_not(text, continues_name) - text.begin()));
}

class EnvReader {
 public:
  explicit EnvReader(std::string file) : file_(std::move(file)) {}

  void line(std::string_view text, int number) {
    const std::string place = str(file_, ":", number);
    text = trimmed(text, kBlanks);
    if (text.empty() || text[0] == '#') return;
    constexpr std::string_view kExport = "export";
    if (text.starts_with(kExport) && text.size() > kExport.size() && kBlanks.find(text[kExport.size()]) != kBlanks.npos)
      text = trimmed(text.substr(kExport.size()), kBlanks);
    const std::string_view key = name_of(text);
    if (key.empty() || key.size() == text.size() || text[key.size()] != '=')
      fail(ExitCode::usage, place, ": expects KEY=VALUE, found ", document::quoted(std::string(text)));
    if (find(key)) fail(ExitCode::usage, place, ": ", key, " is given twice; remove one");
    entries_.push_back({std::string(key), value(text.substr(key.size() + 1), place), place});
    places_.emplace(key, entries_.size() - 1);
  }

  std::vector<EnvEntry> entries() && { return std::move(entries_); }

 private:
  const std::string* find(std::string_view key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &entries_[found->second].value;
  }

  std::string value(std::string_view text, const std::string& place) const {
    const char quote = !text.empty() && (text[0] == '"' || text[0] == '\'') ? text[0] : '\0';
    if (quote != '\0') text.remove_prefix(1);
    const size_t end = quote != '\0' ? text.find(quote) : std::min(text.find_first_of(kBlanks), text.size());
    if (end == text.npos) fail(ExitCode::usage, place, ": the quote before the value is not closed");
    const std::string_view behind = text.substr(quote != '\0' ? end + 1 : end), rest = trimmed(behind, kBlanks);
    text = text.substr(0, end);
    // A comment begins behind a blank.
    if (!rest.empty() && (rest[0] != '#' || rest.size() == behind.size()))
      fail(ExitCode::usage, place, ": ", document::quoted(std::string(rest)), " after the value: ",
           quote != '\0' ? "put the whole value in one pair of quotes" : "put a value with blanks in quotes");
    if (quote == '\'') return std::string(text);
    const std::string_view acted_upon = quote == '"' ? "`\\" : "\"'`\\;&|<>()";
    const size_t at = text.find_first_of(acted_upon);
    if (at != text.npos && !text.substr(0, at).ends_with('$'))  // which expanded() refuses
      fail(ExitCode::usage, place, ": a shell would interpret the '", text[at],
           "' in the value, but this program does not: put the value in single quotes, or remove the character");
    return quote == '\0' && text.starts_with('~') ? at_home(text, place) : expanded(text, place);
  }

  std::string at_home(std::string_view text, const std::string& place) const {
    if (text.size() > 1 && text[1] != '/')
      fail(ExitCode::usage, place, ": only ~ and ~/ are supported, not another user's folder: write its path");
    return expanded("$HOME", place) + expanded(text.substr(1), place);
  }

  std::string expanded(std::string_view text, const std::string& place) const {
    std::string result;
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '$') {
        result += text[at++];
        continue;
      }
      const bool braces = text.substr(at + 1).starts_with('{');
      const std::string name(name_of(text.substr(at + 1 + braces)));
      at += 1 + braces + name.size();
      if (name.empty() || (braces && !text.substr(at).starts_with('}')))
        fail(ExitCode::usage, place,
             ": expected a name after $, as in $HOME or ${HOME}; nothing else is expanded: put ",
             "the value in single quotes if it contains a $");
      at += braces;
      const std::string* earlier = find(name);
      const char* outer = earlier == nullptr ? std::getenv(name.c_str()) : nullptr;
      if (earlier == nullptr && outer == nullptr)
        fail(ExitCode::usage, place, ": $", name,
             " is set neither by an earlier line nor in the environment: set it, or write the value without it");
      result += earlier != nullptr ? *earlier : outer;
      if (result.size() > kLongestValue) fail(ExitCode::usage, place, ": the value is too long");
    }
    return result;
  }

  std::string file_;
  std::vector<EnvEntry> entries_;
  std::map<std::string, size_t, std::less<>> places_;  // in entries_, by key
};

}  // namespace

std::vector<EnvEntry> read_env_file(const std::filesystem::path& path) {
  std::istringstream lines(document::read_text(path));
  EnvReader reader(path.string());
  int number = 0;
  for (std::string line; std::getline(lines, line);) reader.line(line, ++number);
  return std::move(reader).entries();
}

}  // namespace ct
