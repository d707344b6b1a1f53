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
}

}  // namespace
}  // namespace ct
