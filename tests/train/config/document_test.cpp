#include "train/config/document.h"

#include <gtest/gtest.h>

#include <functional>

namespace ct::document {
namespace {

std::shared_ptr<const Origin> origin(const std::string& name = "f") { return std::make_shared<Origin>(Origin{name}); }
Node yaml(const std::string& text) { return parse_yaml(text, origin()); }
Node json(const std::string& text) { return parse_json(text, origin()); }

std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "no error";
}

void expect_refused(const std::function<void()>& body, const std::string& beginning, const std::string& part) {
  const std::string text = message(body);
  EXPECT_EQ(text.rfind(beginning, 0), 0u) << text;
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Document, DigitsBeyond64BitsAreARealNumber) {
  for (const char* text : {"9223372036854775807", "-9223372036854775808"}) {
    const Node node = plain_scalar(text, {});
    EXPECT_EQ(node.kind, Kind::integer);
    EXPECT_EQ(flow(node), text);
  }
  for (const auto& [text, value] : {std::pair{"9223372036854775808", 0x1p63},
                                    {"99999999999999999999", 1e20},
                                    {"-99999999999999999999", -1e20},
                                    {"+99999999999999999999", 1e20}}) {
    const Node node = plain_scalar(text, {});
    EXPECT_EQ(node.kind, Kind::real);
    EXPECT_EQ(node.real, value);
    EXPECT_EQ(node.text, text);
  }
  EXPECT_NE(message([] { plain_scalar(std::string(400, '9'), {}); }).find("double"), std::string::npos);
}

TEST(Document, EveryValueKnowsItsPlace) {
  const Node root = yaml("a: 1\nb:\n  c: [x, y]\n");
  EXPECT_EQ(root.entries[0].value.mark.text(), "f:1:4");
  EXPECT_EQ(root.entries[1].value.entries[0].mark.text(), "f:3:3");
  EXPECT_EQ(root.entries[1].value.entries[0].value.items[1].mark.text(), "f:3:10");
  const Node same = json("{\n  \"a\": 1,\n  \"b\": [10, 20]}");
  EXPECT_EQ(same.entries[1].mark.text(), "f:3:3");
  EXPECT_EQ(same.entries[1].value.items[1].mark.text(), "f:3:13");
}

TEST(Document, YamlIsStrict) {
  const auto refused = [](const std::string& text, const std::string& place, const std::string& part) {
    SCOPED_TRACE(text.substr(0, 50));
    expect_refused([&] { yaml(text); }, place, part);
  };
  refused("a: 1\nb: 2\na: 3\n", "f:3:1: ", "twice, first in line 1");
  refused("a: {b: 1, b: 2}\n", "f:1:11: ", "twice");
  refused("a: 0777\n", "f:1:4: ", "'0777'");
  for (const char* number : {"007", "0x1f", "0o17", "1_000", "-012", "00.5"})
    refused(std::string("a: ") + number, "f:1:4: ", number);
  for (const char* word : {"yes", "No", "ON", "off"}) refused(std::string("a: ") + word, "f:1:4: ", "true or false");
  for (const char* word : {".inf", "-.Inf", ".NaN"}) refused(std::string("a: ") + word, "f:1:4: ", "finite");
  refused("a: 1e999", "f:1:4: ", "double");
  refused("a: &x 1\n", "f:1:", "anchors");
  refused("a: &x [1, *x]\n", "f:1:", "anchors");
  refused("a: *x\n", "f:1:", "");
  refused("<<: {a: 1}\n", "f:1:1: ", "merge keys");
  refused("a: !!int 1\n", "f:1:", "tags");
  refused("a: !!python/object:os.system {}\n", "f:1:", "tags");
  refused("a: 1\n---\nb: 2\n", "f:", "second document");
  refused("[1, 2]: 3\n", "f:1:", "key");
  refused("a: [1, 2\n", "f:", "not valid YAML");
  refused("a: 1\n  b: 2\n", "f:", "not valid YAML");
  refused("a: \"never closed\n", "f:", "not valid YAML");
  refused("a: 'never closed\nb: 2\n", "f:", "not valid YAML");
  refused(std::string(100, '[') + std::string(100, ']'), "f:1:33: ", "deep");
  refused(std::string(100000, '['), "f:1:", "");
}

TEST(Document, WordsThatOnlyLookLikeNumbersAreText) {
  for (const char* word : {"1e", "e5", "1.2.3", "12px", "0abc-run", "2024-01-02", "runs/cnn", "1:30", "0.5.1", "."})
    EXPECT_EQ(yaml(std::string("a: ") + word).entries[0].value.kind, Kind::text) << word;
  EXPECT_EQ(yaml("a: 5e8").entries[0].value.real, 5e8);
  EXPECT_EQ(yaml("a: -.5").entries[0].value.real, -0.5);
  EXPECT_EQ(yaml("a: +7").entries[0].value.integer, 7);
  EXPECT_EQ(yaml("a: -9223372036854775808").entries[0].value.integer, INT64_MIN);
  EXPECT_EQ(yaml("a: 0").entries[0].value.kind, Kind::integer);
  EXPECT_EQ(yaml("a: TRUE").entries[0].value.boolean, true);
}

TEST(Document, ScalarsPrintedReadBackTheSame) {
  for (const double number : {0.1, 1e-8, 3e-7, 0.001, 1.0 / 3, 1e22, 5e-324, 1.7976931348623157e308, -0.5, 100.0})
    EXPECT_EQ(yaml("a: " + flow(number)).entries[0].value.real, number);
  for (const char* text : {"runs/cnn", "no", "012", "1", "a: b", "# c", "", "~", "null", "-", "\xc3\xa9", "q\"\\",
                           "x\ty", ".inf", "@x", "..."})
    EXPECT_EQ(yaml("a: " + flow(std::string(text))).entries[0].value.text, text);
}

// Bytes thrown at the readers give a tree or one error line.
TEST(Document, GarbageNeverCrashes) {
  const std::string good =
      "seed: 42\nmodel: {name: cnn}\ndata:\n  augment: [{random_crop: {padding: 4}}, flip]\n  path: \"a b\"\n# "
      "c\n\"x\": {\"y\": [1,2.5e-3,],}\n";
  const std::string alphabet = "{}[]:,-?!&*#|>'\"%@`\\/ \n\t0x1e.~<=_aZ\xc3\xa9";
  uint64_t state = 1;
  const auto draw = [&](size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % below;
  };
  int readable = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = good;
    for (size_t edits = 1 + draw(4); edits > 0; --edits) {
      const size_t at = draw(text.size());
      if (draw(3) == 0)
        text.erase(at, 1 + draw(9));
      else if (draw(2) == 0)
        text.insert(at, 1, alphabet[draw(alphabet.size())]);
      else
        text[at] = alphabet[draw(alphabet.size())];
      if (text.empty()) text = "a";
    }
    for (const auto& reader : {yaml, json}) readable += message([&] { reader(text); }) == "no error";
  }
  EXPECT_GT(readable, 0);
}

}  // namespace
}  // namespace ct::document
