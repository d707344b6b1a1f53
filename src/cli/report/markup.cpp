#include "cli/report/markup.h"

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
