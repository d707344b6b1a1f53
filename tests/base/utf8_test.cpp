#include "base/utf8.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

TEST(Utf8, ExternalTextBecomesPrintable) {
  EXPECT_EQ(printable("plain, Grüße"), "plain, Grüße");
  EXPECT_EQ(printable("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xc2\x9b|\xc2\xa0"), "\\xc2\\x9b|\xc2\xa0");  // a control character in two bytes; a blank
  EXPECT_EQ(printable("\x9b\xff\xc3"), "\\x9b\\xff\\xc3");           // not UTF-8
  EXPECT_EQ(printable(printable("\n")), "\\x0a");
  EXPECT_EQ(printable("\u202egnp.exe"), "\\xe2\\x80\\xaegnp.exe");  // shown as exe.png
}

TEST(Utf8, LinesStayLines) { EXPECT_EQ(printable_lines("a\tb\n\r\x1b"), "a\tb\n\\x0d\\x1b"); }

TEST(Utf8, ACharacterMayBeCut) {
  EXPECT_EQ(cut_character("plain"), 0u);
  EXPECT_EQ(cut_character("Gr\xc3"), 1u);
  EXPECT_EQ(cut_character("Gr\xc3\xbc"), 0u);
  EXPECT_EQ(cut_character("\xe6\xb1"), 2u);
  EXPECT_EQ(cut_character("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(cut_character("\x80\x80\x80\x80"), 0u);  // begins none
}

}  // namespace
}  // namespace ct
