// parse_json(): JSON as people write it for DeepSpeed, which reads Hjson: comments, a line's end in place of a comma,
// keys and texts without quotes, texts of several lines, and no braces around the whole are welcome
// (hjson.github.io/syntax).
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/text.h"
#include "base/utf8.h"
#include "train/config/document.h"

namespace ct::document {
namespace {

/// 1e1_0, -0x10, NaN and Infinity: numbers of other languages.
bool is_like_a_number(const std::string& word) {
  const std::string digits = lower_case(word.substr(std::min(word.find_first_not_of("+-."), word.size())));
  constexpr const char* kNames[] = {"nan", "inf", "infinity"};
  return std::isdigit(static_cast<unsigned char>(digits[0])) || std::ranges::find(kNames, digits) != std::end(kNames);
}

class JsonReader {
 public:
  JsonReader(const std::string& text, std::shared_ptr<const Origin> origin) : text_(text), origin_(std::move(origin)) {}

  Node read() {
    skip_blank();
    const bool braces = at_end() || peek() == '{' || peek() == '[';
    Node root = braces ? value(0) : map_without_braces();
    skip_blank();
    if (!at_end()) fail_here("unexpected text after the closing brace");
    return root;
  }

 private:
  bool at_end() const { return next_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return next_ + ahead < text_.size() ? text_[next_ + ahead] : '\0'; }
  Mark here() const { return {origin_, line_, static_cast<int>(next_ - line_start_) + 1}; }
  template <class... Parts>
  [[noreturn]] void fail_here(const Parts&... parts) const {
    fail_at(here(), "is not valid JSON: ", parts...);
  }
  char step() {
    const char c = text_[next_++];
    if (c == '\n') {
      ++line_;
      line_start_ = next_;
    }
    return c;
  }

  void skip_blank() {
    while (!at_end()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        step();
      } else if (c == '#' || (c == '/' && peek(1) == '/')) {
        while (!at_end() && peek() != '\n') step();
      } else if (c == '/' && peek(1) == '*') {
        const Mark begin = here();
        step(), step();
        while (!at_end() && !(peek() == '*' && peek(1) == '/')) step();
        if (at_end()) fail_at(begin, "is not valid JSON: this comment is never closed");
        step(), step();
      } else {
        return;
      }
    }
  }

  Node value(int depth) {
    if (at_end()) fail_here("the text ends where a value should follow");
    if (depth >= kMaxDepth) fail_at(here(), "is nested more than ", kMaxDepth, " deep");
    Node node;
    node.mark = here();
    if (peek() == '{') {
      node.kind = Kind::map;
      Names names;
      read_items('}', node.mark, [&] { read_entry(node, names, depth); });
      names.refuse_twice();
    } else if (peek() == '[') {
      node.kind = Kind::list;
      read_items(']', node.mark, [&] { node.items.push_back(value(depth + 1)); });
    } else if (begins_string()) {
      node.kind = Kind::text;
      node.text = string();
    } else {
      if (std::optional<std::string> text = rest_of_line()) {
        node.kind = Kind::text;
        next_ += text->size();
        node.text = *std::move(text);
        return node;
      }
      const std::string word = bare_word();
      if (word.empty()) fail_here("unexpected ", quoted(std::string(1, peek())));
      node = plain_scalar(word, node.mark);
      const bool keyword = word == "null" || word == "true" || word == "false";
      const bool number = node.is_number() && word[0] != '+' && word[0] != '.';
      if (!keyword && !number) fail_at(node.mark, "is not valid JSON: ", quoted(word), instead_of(word, node));
    }
    return node;
  }

  /// What to write in the place of a bare word, which other languages take.
  static std::string instead_of(const std::string& word, const Node& read) {
    if (word == "None") return ", which is Python's: leave the key out";
    if (read.kind == Kind::text)
      return str(is_like_a_number(word) ? " is not a JSON number; a string" : "", " needs double quotes");
    return str("; did you mean ", flow(read), "?");
  }

  template <class Item>
  void read_items(char close, const Mark& begin, Item&& item) {
    step();
    for (skip_blank(); peek() != close; skip_blank()) {
      if (at_end()) fail_at(begin, "is not valid JSON: this bracket is never closed");
      item();
      const int line = line_;
      skip_blank();
      if (peek() == ',')
        step();
      else if (!at_end() && peek() != close && line == line_)
        fail_here("expected ',' or '", close, "', found ", quoted(std::string(1, peek())));
    }
    step();
  }

  /// The keys of one map; those that come twice are refused together, in DeepSpeed's words.
  class Names {
   public:
    bool add(const std::string& key, const Mark& mark) {
      const auto [first, fresh] = lines_.emplace(key, mark.line);
      if (fresh) return true;
      if (twice_.empty()) mark_ = mark, line_ = first->second;
      if (twice_.size() < kMostListed && twice_.find("'" + key + "'") == twice_.npos)
        twice_ += (twice_.empty() ? "'" : ", '") + key + "'";
      return false;
    }
    void refuse_twice() const {
      if (!twice_.empty())
        fail_at(mark_, "Duplicate keys in DeepSpeed config: [", printable(twice_.substr(0, kMostListed)),
                "]; the first is in line ", line_, "; remove one");
    }

   private:
    static constexpr size_t kMostListed = 400;  // bytes
    std::map<std::string, int> lines_;
    std::string twice_;
    Mark mark_;
    int line_ = 0;
  };

  Node map_without_braces() {
    Node map;
    map.mark = here();
    map.kind = Kind::map;
    Names names;
    while (!at_end()) {
      read_entry(map, names, 0);
      const int line = line_;
      skip_blank();
      if (peek() == ',')
        step();
      else if (!at_end() && line == line_)
        fail_here("expected ',' or the end of the line, found ", quoted(std::string(1, peek())));
      skip_blank();
    }
    names.refuse_twice();
    return map;
  }

  void read_entry(Node& map, Names& names, int depth) {
    const Mark mark = here();
    const bool in_quotes = begins_string();
    const std::string key = in_quotes ? string() : bare_word();
    if (key.empty() && !in_quotes) fail_here("expected a key, found ", quoted(std::string(1, peek())));
    const bool fresh = names.add(key, mark);
    skip_blank();
    if (peek() != ':') fail_here("expected ':' after the key ", quoted(key));
    step();
    skip_blank();
    Node of_key = value(depth + 1);
    if (fresh) map.entries.push_back({key, mark, std::move(of_key)});
  }

  std::string bare_word() {
    const size_t begin = next_;
    while (!at_end() && (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_' || peek() == '-' ||
                         peek() == '+' || peek() == '.'))
      step();
    return text_.substr(begin, next_ - begin);
  }

  bool begins_string() const { return peek() == '"' || peek() == '\''; }

  /// A text without quotes, which ends with its line. Nothing where that is a number, true, false or null, or where the
  /// line goes on as JSON does.
  std::optional<std::string> rest_of_line() const {
    // Not to the line's end first: a line may have thousands of values.
    const size_t end = std::min(text_.find_first_of("\n,:[]{}\"#", next_), text_.size());
    if (end < text_.size() && text_[end] != '\n') return {};
    std::string line = text_.substr(next_, end - next_);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (line.empty() || line.find("//") != line.npos || line.find("/*") != line.npos) return {};
    if (line == "null" || line == "true" || line == "false" || plain_scalar(line, here()).is_number()) return {};
    return line;
  }

  /// '''A text of several lines''', without the line ends behind the first quotes and before the last, and without
  /// the blanks before the column in which it begins.
  std::string lines() {
    const Mark begin = here();
    std::string result;
    for (int i = 0; i < 3; ++i) step();
    const auto skip_margin = [&] {
      for (int column = 1; column < begin.column && (peek() == ' ' || peek() == '\t'); ++column) step();
    };
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\r')) step();
    if (peek() == '\n') step(), skip_margin();
    while (text_.compare(next_, 3, "'''") != 0) {
      if (at_end()) fail_at(begin, "is not valid JSON: this text's closing quotes are missing");
      const char c = step();
      if (c != '\r') result += c;
      if (c == '\n') skip_margin();
    }
    for (int i = 0; i < 3; ++i) step();
    if (result.ends_with('\n')) result.pop_back();
    return result;
  }

  std::string string() {
    if (text_.compare(next_, 3, "'''") == 0) return lines();
    const Mark begin = here();
    const char quote = peek();
    std::string result;
    for (step(); peek() != quote;) {
      if (at_end() || peek() == '\n') fail_at(begin, "is not valid JSON: this text's closing quote is missing");
      const char c = step();
      if (c == '\\')
        escape(result);
      else
        result += c;
    }
    step();
    return result;
  }

  void escape(std::string& result) {
    if (at_end()) fail_here("the text ends in an escape");
    const char c = step();
    constexpr char kNames[] = "\"'\\/bfnrt", kMeanings[] = "\"'\\/\b\f\n\r\t";
    for (int i = 0; kNames[i]; ++i)
      if (c == kNames[i]) {
        result += kMeanings[i];
        return;
      }
    if (c != 'u') fail_here("unknown escape ", quoted(std::string("\\") + c));
    uint32_t code = hex4();
    if (code >= 0xd800 && code < 0xdc00 && peek() == '\\' && peek(1) == 'u') {
      step(), step();
      const uint32_t low = hex4();
      if (low < 0xdc00 || low >= 0xe000) fail_here("half a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code < 0xe000) fail_here("half a surrogate pair");
    if (code == 0) fail_here("a zero character");
    append_utf8(result, code);
  }

  uint32_t hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail_here("'\\u' needs four hexadecimal digits");
      code = code << 4 | static_cast<uint32_t>(digit);
      step();
    }
    return code;
  }

  static void append_utf8(std::string& out, uint32_t code) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6), tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | code >> 12), tail(6), tail(0);
    } else {
      out += static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0);
    }
  }

  const std::string& text_;
  std::shared_ptr<const Origin> origin_;
  size_t next_ = 0, line_start_ = 0;
  int line_ = 1;
};

}  // namespace

Node parse_json(const std::string& text, std::shared_ptr<const Origin> origin) {
  return JsonReader(text, std::move(origin)).read();
}

}  // namespace ct::document
