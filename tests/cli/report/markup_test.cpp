#include "cli/report/markup.h"

#include <gtest/gtest.h>

namespace ct::report {
namespace {

TEST(Escaped, LeavesNoMarkup) {
  EXPECT_EQ(escaped("<b a='1' c=\"2\">&amp;</b>"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;&lt;/b&gt;");
  EXPECT_EQ(escaped("Gr\u00fc\u00dfe \u732b"), "Gr\u00fc\u00dfe \u732b");
}

TEST(Escaped, ShowsWhatATextWouldHide) {
  EXPECT_EQ(escaped(std::string_view("a\0b\x1b[31m\n", 9)), "a\\x00b\\x1b[31m\\x0a");
  EXPECT_EQ(escaped("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(escaped("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(escaped("\u202egnp.exe\u2066"), "\\xe2\\x80\\xaegnp.exe\\xe2\\x81\\xa6");
}

TEST(Shortened, KeepsBothEndsAndCutsBetweenCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abcd...fg");
  EXPECT_EQ(shortened("abc\u00fcdef", 4), "abc...f");
  EXPECT_EQ(shortened("\u00fc\u00fc\u00fc", 4), "\u00fc...");
}

TEST(Markup, BreaksNamesBetweenTheirParts) {
  Markup out;
  out.name_element("b", "a.b_c=0.1-2", 99);
  EXPECT_EQ(out.take(), "<b>a.<wbr/>b_<wbr/>c=<wbr/>0.1-2</b>\n");
  EXPECT_EQ(parts_of(""), std::vector<std::string_view>{""});
}

TEST(Markup, SaysInATitleWhatATextLacks) {
  Markup out;
  out.shortened_element("b", "a<b", 3);
  out.shortened_element("b", "a<b\"cd", 3, {{"class", "x"}});
  EXPECT_EQ(out.take(), "<b>a&lt;b</b>\n<b class=\"x\" title=\"a&lt;b&quot;cd\">a&lt;...d</b>\n");
}

TEST(Markup, EscapesTextAndAttributes) {
  Markup out;
  out.open("p", {{"class", "a\"b"}});
  out.text("1 < 2");
  out.empty("circle", {{"r", "3"}});
  out.element("b", "<i>");
  out.close("p");
  EXPECT_EQ(out.take(), "<p class=\"a&quot;b\">1 &lt; 2<circle r=\"3\"/><b>&lt;i&gt;</b>\n</p>\n");
}

}  // namespace
}  // namespace ct::report
