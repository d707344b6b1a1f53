#include "train/config/document.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "base/input.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "train/config/foreign.h"

namespace ct::document {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// [-+]? (digits [. digits?]? | . digits) ([eE] [-+]? digits)?
bool looks_numeric(const std::string& text) {
  const char* at = text.c_str();
  if (*at == '-' || *at == '+') ++at;
  int digits = 0;
  for (; is_digit(*at); ++at) ++digits;
  if (*at == '.')
    for (++at; is_digit(*at); ++at) ++digits;
  if (digits == 0) return false;
  if (*at == 'e' || *at == 'E') {
    ++at;
    if (*at == '-' || *at == '+') ++at;
    if (!is_digit(*at)) return false;
    while (is_digit(*at)) ++at;
  }
  return at == text.c_str() + text.size();
}

/// Numbers that YAML 1.1, YAML 1.2 and C read differently: 0777, 0o17, 0x1f, 0b1, 1_000.
bool reads_ambiguously(const std::string& text) {
  const size_t sign = text[0] == '-' || text[0] == '+';
  if (sign >= text.size() || !is_digit(text[sign])) return false;
  const bool only_number_characters = text.find_first_not_of("0123456789abcdefABCDEFxXoO_.+-") == std::string::npos &&
                                      text.find("..") == std::string::npos;
  if (!only_number_characters) return false;
  const bool leading_zero = text[sign] == '0' && sign + 1 < text.size();
  if (leading_zero && is_digit(text[sign + 1])) return looks_numeric(text) || text.find('_') != std::string::npos;
  if (leading_zero && std::strchr("xXoObB", text[sign + 1]))
    return text.find_first_not_of("0123456789abcdefABCDEF_", sign + 2) == std::string::npos && text.size() > sign + 2;
  return text.find('_') != std::string::npos && text.find_first_not_of("0123456789_.", sign) == std::string::npos;
}

/// The first byte that is not UTF-8 text (tab and line ends are the only control characters), or npos.
size_t first_bad_byte(const std::string& text) {
  for (size_t at = 0, length; at < text.size(); at += length) {
    length = utf8_length(text, at);
    if (length == 0) return at;
    const char c = text[at];
    const bool control = length == 1 && is_control(text, at);
    if (control && c != '\t' && c != '\n' && c != '\r') return at;
  }
  return std::string::npos;
}

}  // namespace

bool is_text(const std::string& text) { return first_bad_byte(text) == std::string::npos; }

std::string Mark::text() const {
  if (!origin) return "default";
  return origin->positions && line > 0 ? str(origin->name, ":", line, ":", column) : origin->name;
}

Node plain_scalar(const std::string& text, const Mark& mark) {
  Node node;
  node.mark = mark;
  node.text = text;
  const std::string word = lower_case(text);
  if (text.empty() || text == "~" || word == "null") return node;
  if (word == "true" || word == "false") {
    node.kind = Kind::boolean;
    node.boolean = word == "true";
    return node;
  }
  if (word == "yes" || word == "no" || word == "on" || word == "off")
    fail_at(mark, quoted(text), " is true or false only in some YAML; write true or false, or quote it if it is text");
  if (word == ".inf" || word == "+.inf" || word == "-.inf" || word == ".nan")
    fail_at(mark, quoted(text), " is not a finite number");
  if (reads_ambiguously(text))
    fail_at(mark, quoted(text),
            " is a different number in different programs; write plain decimal digits, or quote it if it is text");
  node.kind = Kind::text;
  if (!looks_numeric(text)) return node;
  const char* first = text.data() + (text[0] == '+');
  const char* last = text.data() + text.size();
  if (text.find_first_of(".eE") == std::string::npos && std::from_chars(first, last, node.integer).ec == std::errc()) {
    node.kind = Kind::integer;
    node.real = static_cast<double>(node.integer);
    return node;
  }
  // Digits beyond 64 bits too: they are a real number to whoever takes one.
  node.kind = Kind::real;
  if (std::from_chars(first, last, node.real).ec != std::errc())
    fail_at(mark, quoted(text), " does not fit a double-precision number");
  return node;
}

std::string read_text(const std::filesystem::path& path) {
  std::string text(without_byte_order_mark(read_input(path, kMaxBytes, ExitCode::usage)));
  if (const size_t bad = first_bad_byte(text); bad != std::string::npos) {
    const int line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + bad, '\n'));
    const size_t start = text.rfind('\n', bad);
    const int column = static_cast<int>(start == std::string::npos ? bad + 1 : bad - start);
    fail_at({std::make_shared<Origin>(Origin{path.string()}), line, column},
            "is not UTF-8 text, so it is not a configuration");
  }
  return text;
}

Node read_file(const std::filesystem::path& path) {
  const std::optional<std::string> encoded = text_in_place_of(path);
  const std::string text = encoded ? *encoded : read_text(path);
  const auto origin = std::make_shared<Origin>(Origin{source_name(path)});
  const std::string suffix = lower_case(path.extension().string());
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool braces = first != std::string::npos && text[first] == '{';
  const bool json =
      encoded || suffix == ".json" || suffix == ".hjson" || (braces && suffix != ".yaml" && suffix != ".yml");
  if (first == std::string::npos) {  // an empty file says nothing, in either language
    Node nothing;
    nothing.kind = Kind::map;
    nothing.mark = {origin, 1, 1};
    return nothing;
  }
  Node root = json ? parse_json(text, origin) : parse_yaml(text, origin);
  if (root.kind == Kind::null) root.kind = Kind::map;
  if (root.kind != Kind::map)
    fail_at(root.mark, "a configuration is a set of 'key: value' lines, not ", quoted(flow(root)));
  return root;
}

std::string quoted(const std::string& text) {
  constexpr size_t kLongest = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      result += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "?";
    else
      result += c;
  }
  return result + (text.size() > kLongest ? "…'" : "'");
}

std::string flow(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string flow(const std::string& value) {
  const bool simple = value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") ==
                          std::string::npos &&
                      !value.empty() && value[0] != '-' && value != "..." && value != ".";
  if (simple) {
    try {
      if (plain_scalar(value, {}).kind == Kind::text) return value;
    } catch (const Error&) {
      // a word such as "off" that only quotes make text
    }
  }
  std::string result = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr char kHex[] = "0123456789abcdef";
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      result += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
    else
      result += c;
  }
  return result + "\"";
}

std::string flow(const Node& node) {
  std::string result;
  switch (node.kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return node.boolean ? "true" : "false";
    case Kind::integer:
      return std::to_string(node.integer);
    case Kind::real:
      return flow(node.real);
    case Kind::text:
      return flow(node.text);
    case Kind::list:
      for (const Node& item : node.items) result += (result.empty() ? "" : ", ") + flow(item);
      return "[" + result + "]";
    case Kind::map:
      for (const Entry& entry : node.entries)
        result += (result.empty() ? "" : ", ") + flow(entry.key) + ": " + flow(entry.value);
      return "{" + result + "}";
  }
  return result;
}

std::string brief(const Node& node) {
  constexpr size_t kLongest = 60;
  const std::string text = flow(node);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

}  // namespace ct::document
