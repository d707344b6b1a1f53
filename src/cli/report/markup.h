// Writes HTML and SVG. All text and all values of attributes pass through escaped(), so that nothing from a run's
// folder becomes markup.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ct::report {

/// Text as content of an element or of a quoted attribute: markup becomes entities, and control characters, invalid
/// UTF-8 and characters that turn the direction of text become visible escapes.
std::string escaped(std::string_view text);

/// At most `most` bytes of a text, cut between characters; "..." stands for what lies between its two ends.
std::string shortened(std::string_view text, size_t most = 200);

/// A name where it may be broken: "optimizer.", "params.", "lr". Numbers stay whole.
std::vector<std::string_view> parts_of(std::string_view name);

class Markup {
 public:
  /// Names are the program's own; values are escaped. An empty value is written as such.
  using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  void open(std::string_view element, Attributes attributes = {});
  void close(std::string_view element) { out_.append("</").append(element).append(">\n"); }
  /// An element that has no content: <br>, <circle/>.
  void empty(std::string_view element, Attributes attributes = {});
  void text(std::string_view text) { out_ += escaped(text); }
  /// <element>text</element>
  void element(std::string_view element, std::string_view text, Attributes attributes = {});
  /// The same with shortened(text, most); where that is less, the attribute `title` says more.
  void shortened_element(std::string_view element, std::string_view text, size_t most, Attributes attributes = {});
  /// The same for a name, which may be broken between its parts.
  void name_element(std::string_view element, std::string_view name, size_t most, Attributes attributes = {});
  /// The program's own text, such as a style sheet, or a part that another Markup wrote.
  void verbatim(std::string_view text) { out_ += text; }

  std::string take() { return std::move(out_); }

 private:
  void begin(std::string_view element, Attributes attributes);
  void open_titled(std::string_view element, std::string_view text, size_t most, Attributes attributes);
  std::string out_;
};

}  // namespace ct::report
