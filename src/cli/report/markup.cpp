#include "cli/report/markup.h"

#include "base/utf8.h"

namespace ct::report {
namespace {

/// U+061C, U+200E and U+200F, U+202A to U+202E, U+2066 to U+2069: they could show a text in another order than it has.
bool turns_direction(std::string_view character) {
  if (character == "\u061c" || character == "\u200e" || character == "\u200f") return true;
  return (character >= "\u202a" && character <= "\u202e") || (character >= "\u2066" && character <= "\u2069");
}

}  // namespace

std::string escaped(std::string_view text) {
  const std::string plain = printable(text);
  std::string safe;
  safe.reserve(plain.size());
  for (size_t at = 0; at < plain.size();) {
    const size_t length = utf8_length(plain, at);
    const std::string_view character = std::string_view(plain).substr(at, length);
    at += length;
    if (character == "&")
      safe += "&amp;";
    else if (character == "<")
      safe += "&lt;";
    else if (character == ">")
      safe += "&gt;";
    else if (character == "\"")
      safe += "&quot;";
    else if (character == "'")
      safe += "&#39;";
    else if (length > 1 && turns_direction(character))
      safe += "\ufffd";
    else
      safe += character;
  }
  return safe;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) >> 6) == 2) --end;
  return std::string(text.substr(0, end)) + "...";
}

void Markup::begin(std::string_view element, Attributes attributes) {
  out_.append("<").append(element);
  for (const auto& [name, value] : attributes)
    out_.append(" ").append(name).append("=\"").append(escaped(value)).append("\"");
}

void Markup::open(std::string_view element, Attributes attributes) {
  begin(element, attributes);
  out_ += ">";
}

void Markup::empty(std::string_view element, Attributes attributes) {
  begin(element, attributes);
  out_ += "/>";
}

void Markup::element(std::string_view element, std::string_view text, Attributes attributes) {
  open(element, attributes);
  out_ += escaped(text);
  close(element);
}

}  // namespace ct::report
