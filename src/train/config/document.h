// A configuration text as a tree of values with their positions.
//
// YAML (yaml-cpp reads the grammar) and JSON give the same tree, by stricter rules than either: no duplicate keys,
// anchors, aliases, merge keys, tags or second documents, no numbers that look octal or hexadecimal, no infinities, no
// yes/no/on/off. Other programs read these forms differently. Errors are Error(ExitCode::usage), whose message begins
// with "file:line:column: ".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace ct::document {

inline constexpr size_t kMaxBytes = 1 << 20;
inline constexpr int kMaxDepth = 32;

/// Where a text came from: a file (positions mean something) or a word of the command line (they do not).
struct Origin {
  std::string name;
  bool positions = true;
};

struct Mark {
  std::shared_ptr<const Origin> origin;
  int line = 0, column = 0;  // from 1

  /// "default.yaml:3:7", "--set train.epochs=2", "default".
  std::string text() const;
};

enum class Kind { null, boolean, integer, real, text, list, map };

struct Entry;
struct Node {
  Kind kind = Kind::null;
  Mark mark;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;   // integers fill it too; those beyond 64 bits are Kind::real
  std::string text;  // of a scalar: the value as written, with escapes resolved
  std::vector<Node> items;
  std::vector<Entry> entries;  // in file order, keys unique

  bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
};
struct Entry {
  std::string key;
  Mark mark;
  Node value;
};

/// The text of a file, without a byte-order mark; at most kMaxBytes of UTF-8.
std::string read_text(const std::filesystem::path& path);

/// Reads a file, or the text given instead of it (foreign.h): JSON when its name is *.json or *.hjson, or begins with
/// '{' and is not named *.yaml or *.yml; otherwise YAML. The root is a map; an empty file is an empty map.
Node read_file(const std::filesystem::path& path);

/// Is it UTF-8, with no control characters but tabs and line ends?
bool is_text(const std::string& text);

Node parse_yaml(const std::string& text, std::shared_ptr<const Origin> origin);
/// src/deepspeed/ reads Hjson; without that folder (no_deepspeed.cpp) JSON is read as YAML.
Node parse_json(const std::string& text, std::shared_ptr<const Origin> origin);

/// The kind of an unquoted scalar: null, boolean, integer, real or text.
Node plain_scalar(const std::string& text, const Mark& mark);

/// 'text' for an error line, with control characters escaped, and shortened if it is long.
std::string quoted(const std::string& text);

/// flow() for a message, shortened if it is long.
std::string brief(const Node& node);

/// The value as the shortest text that reads back the same; lists and maps in flow style.
std::string flow(const Node& node);
std::string flow(double value);
std::string flow(const std::string& value);

template <class... Parts>
[[noreturn]] void fail_at(const Mark& mark, const Parts&... parts) {
  fail(ExitCode::usage, mark.text(), ": ", parts...);
}

}  // namespace ct::document
