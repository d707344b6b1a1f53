// Url-safe base64 of a JSON text, which DeepSpeed takes in place of a configuration's file.
#include <algorithm>

#include "train/config/foreign.h"

namespace ct {
namespace {

/// The value of a letter of url-safe base64, or -1.
int sextet(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '-' ? 62 : c == '_' ? 63 : -1;
}

std::string_view without_padding(std::string_view word) {
  for (int i = 0; i < 2 && word.ends_with('='); ++i) word.remove_suffix(1);
  return word;
}

bool is_alphabet(std::string_view word) {
  return std::ranges::all_of(without_padding(word), [](char c) { return sextet(c) >= 0; });
}

/// The text that `word` holds; nothing where it is no base64, or not of a configuration.
std::optional<std::string> decode_config(const std::string& word) {
  const std::string_view letters = without_padding(word);
  if (letters.empty() || letters.size() / 4 > document::kMaxBytes / 3 || letters.size() % 4 == 1 || !is_alphabet(word))
    return {};
  std::string text;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : letters) {
    bits = bits << 6 | static_cast<uint32_t>(sextet(c));
    if ((count += 6) < 8) continue;
    count -= 8;
    text += static_cast<char>(bits >> count & 0xff);
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != text.npos && (text[first] == '{' || text[first] == '#' || text[first] == '/');
  if (!json || !document::is_text(text)) return {};
  return text;
}

}  // namespace

std::optional<std::string> text_in_place_of(const std::filesystem::path& file) {
  std::error_code error;  // also of names that are too long for a file
  if (std::filesystem::exists(file, error)) return {};
  return decode_config(file.native());
}

bool looks_encoded(const std::string& word) {
  constexpr size_t kShortest = 16;
  const bool begins_as_json = word.starts_with("eyJ") || word.starts_with("ewo") || word.starts_with("eyA");
  return word.size() >= kShortest && (begins_as_json || is_alphabet(word)) && word.find_first_of("/.") == word.npos;
}

std::string source_name(const std::filesystem::path& file) {
  constexpr size_t kShown = 12;
  if (!text_in_place_of(file)) return file.string();
  const std::string word = file.native();
  return "base64 " + word.substr(0, kShown) + (word.size() > kShown ? "..." : "");
}

}  // namespace ct
