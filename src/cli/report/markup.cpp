#include "cli/report/markup.h"

#include <cctype>

#include "base/error.h"
#include "base/utf8.h"

namespace ct::report {

std::string escaped(std::string_view text) {
  const std::string plain = printable(text);
  std::string safe;
  safe.reserve(plain.size());
  for (const char c : plain) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else if (c == '\'')
      safe += "&#39;";
    else
      safe += c;
  }
  return safe;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  const auto is_within = [&](size_t at) { return (static_cast<unsigned char>(text[at]) >> 6) == 2; };  // a character
  size_t head = most - most / 3, tail = text.size() - most / 3;
  while (head > 0 && is_within(head)) --head;
  while (tail < text.size() && is_within(tail)) ++tail;
  return str(text.substr(0, head), "...", text.substr(tail));
}

std::vector<std::string_view> parts_of(std::string_view name) {
  const auto is_letter = [&](size_t at) { return std::isalpha(static_cast<unsigned char>(name[at])) != 0; };
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t i = 1; i + 2 < name.size(); ++i) {  // a single letter stays
    if (std::string_view("./_-=,").find(name[i]) == std::string_view::npos || !is_letter(i - 1)) continue;
    parts.push_back(name.substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  parts.push_back(name.substr(begin));
  return parts;
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

/// The title has the text, if that is longer than what the element shows.
void Markup::open_titled(std::string_view element, std::string_view text, size_t most, Attributes attributes) {
  constexpr size_t kLongestTitle = 1000;
  begin(element, attributes);
  if (text.size() > most) out_.append(" title=\"").append(escaped(shortened(text, kLongestTitle))).append("\"");
  out_ += ">";
}

void Markup::shortened_element(std::string_view element, std::string_view text, size_t most, Attributes attributes) {
  open_titled(element, text, most, attributes);
  out_ += escaped(shortened(text, most));
  close(element);
}

void Markup::name_element(std::string_view element, std::string_view name, size_t most, Attributes attributes) {
  open_titled(element, name, most, attributes);
  const std::string shown = shortened(name, most);
  bool first = true;
  for (const std::string_view part : parts_of(shown)) {
    if (!std::exchange(first, false)) out_ += "<wbr/>";
    out_ += escaped(part);
  }
  close(element);
}

void Markup::element(std::string_view element, std::string_view text, Attributes attributes) {
  open(element, attributes);
  out_ += escaped(text);
  close(element);
}

}  // namespace ct::report
