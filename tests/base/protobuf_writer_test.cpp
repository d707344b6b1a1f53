#include "base/protobuf_writer.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

using namespace std::string_literals;

// The encodings are those of protobuf.dev/programming-guides/encoding.
TEST(ProtobufWriter, NumbersAreVarints) {
  EXPECT_EQ(ProtobufMessage().number(1, 150).text(), "\x08\x96\x01"s);
  EXPECT_EQ(ProtobufMessage().number(1, 0).text(), "\x08\0"s);
  EXPECT_EQ(ProtobufMessage().number(1, 127).number(1, 128).text(), "\x08\x7f\x08\x80\x01"s);
  EXPECT_EQ(ProtobufMessage().number(2, true).text(), "\x10\x01"s);
  EXPECT_EQ(ProtobufMessage().number(1, -2).text(), "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
  EXPECT_EQ(ProtobufMessage().number(1, UINT64_MAX).text(), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
}

TEST(ProtobufWriter, KeysBeyondFifteenTakeTwoBytes) {
  EXPECT_EQ(ProtobufMessage().number(16, 1).text(), "\x80\x01\x01"s);
  EXPECT_EQ(ProtobufMessage().number(20, 7).text(), "\xa0\x01\x07"s);
}

TEST(ProtobufWriter, FixedNumbersAreLittleEndian) {
  EXPECT_EQ(ProtobufMessage().fixed(2, 1.0F).text(), "\x15\0\0\x80\x3f"s);
  EXPECT_EQ(ProtobufMessage().fixed(1, 1.0).text(), "\x09\0\0\0\0\0\0\xf0\x3f"s);
}

TEST(ProtobufWriter, TextsAndMessagesHaveTheirLength) {
  EXPECT_EQ(ProtobufMessage().bytes(2, "testing").text(), "\x12\x07testing"s);
  EXPECT_EQ(ProtobufMessage().bytes(2, "").text(), "\x12\0"s);
  EXPECT_EQ(ProtobufMessage().message(3, ProtobufMessage().number(1, 150)).text(), "\x1a\x03\x08\x96\x01"s);
  const std::string many(300, 'x');
  EXPECT_EQ(ProtobufMessage().bytes(1, many).text(), "\x0a\xac\x02" + many);
}

TEST(ProtobufWriter, AnnouncesWhatIsWrittenElsewhere) {
  EXPECT_EQ(ProtobufMessage().announce(2, 7).text() + "testing", ProtobufMessage().bytes(2, "testing").text());
  EXPECT_EQ(ProtobufMessage().announce(9, uint64_t{1} << 32).text(), "\x4a\x80\x80\x80\x80\x10"s);
}

}  // namespace
}  // namespace ct
