#include <functional>

#include "train/config/config_test.h"
#include "train/config/document.h"

namespace ct::document {
namespace {

std::shared_ptr<const Origin> origin(const std::string& name = "f") { return std::make_shared<Origin>(Origin{name}); }
Node yaml(const std::string& text) { return parse_yaml(text, origin()); }
Node json(const std::string& text) { return parse_json(text, origin()); }

std::string hjson_message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "no error";
}

void expect_hjson_refused(const std::function<void()>& body, const std::string& beginning, const std::string& part) {
  const std::string text = hjson_message(body);
  EXPECT_EQ(text.rfind(beginning, 0), 0u) << text;
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Hjson, YamlAndJsonReadAlike) {
  const std::string expected = "{a: 1, b: [1.5, -2, 3e-07], c: {d: true, e: null, f: \"no\"}, g: \"1\"}";
  EXPECT_EQ(flow(yaml("a: 1\nb: [1.5, -2, 3e-7]\nc:\n  d: true\n  e:\n  f: 'no'\ng: \"1\"\n")), expected);
  EXPECT_EQ(
      flow(
          json("// first\n{\"a\": 1, # second\n \"b\": [1.5, -2, 3e-7,],\n c: {\"d\": true, /* third\n */ \"e\": null, "
               "\"f\": \"no\",},\n\"g\": \"1\"}")),
      expected);
}

TEST(Hjson, JsonIsStrict) {
  const auto refused = [](const std::string& text, const std::string& place, const std::string& part) {
    SCOPED_TRACE(text.substr(0, 50));
    expect_hjson_refused([&] { json(text); }, place, part);
  };
  refused("{\"a\": 1, \"a\": 2}", "f:1:10: ", "Duplicate keys in DeepSpeed config");
  refused("{\"a\": 012}", "f:1:7: ", "'012'");
  refused("{\"a\": NaN}", "f:1:7: ", "NaN");
  refused("{\"a\": Infinity}", "f:1:7: ", "Infinity");
  refused("{\"a\": True}", "f:1:7: ", "True");
  refused("{\"a\" 1}", "f:1:6: ", "':'");
  refused("{\"a\": 1 \"b\": 2}", "f:1:9: ", "','");
  refused("{\"a\": 1", "f:1:1: ", "never closed");
  refused("{\"a\": [1, 2}", "f:1:12: ", "']'");
  refused("{\"a\": \"x\n\"}", "f:1:7: ", "quote");
  refused("{\"a\": \"\\q\"}", "f:1:", "escape");
  refused("{\"a\": \"\\ud800\"}", "f:1:", "surrogate");
  refused("{\"a\": \"\\u0000\"}", "f:1:", "zero");
  refused("{} {}", "f:1:4: ", "after the closing brace");
  refused("{ /* open", "f:1:3: ", "never closed");
  refused("{,}", "f:1:2: ", "key");
  refused("", "f:1:1: ", "ends");
  refused(std::string(100000, '['), "f:1:33: ", "deep");
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  refused(deep, "f:1:", "deep");
  EXPECT_EQ(json("{\"a\": \"\\u00e9\\ud83d\\ude00\\n\"}").entries[0].value.text, "\u00e9\U0001F600\n");
}

TEST(Hjson, IsReadAsDeepSpeedReadsIt) {
  const Node root = json(
      "# a comment\n"
      "train_batch_size: 16\n"
      "optimizer: {\n"
      "  type: AdamW   \n"
      "  params: {lr: 1e-3, 'betas': [0.9\n 0.99]}\n"
      "}\n"
      "'fp16': {\"enabled\": false /* of the card */\n}\n"
      "note: '''\n"
      "      two\n"
      "       lines\n"
      "      '''\n"
      "path: runs/a b 3\n");
  ASSERT_EQ(root.entries.size(), 5u);
  EXPECT_EQ(root.entries[0].value.integer, 16);
  const Node& optimizer = root.entries[1].value;
  EXPECT_EQ(optimizer.entries[0].value.text, "AdamW");
  EXPECT_EQ(optimizer.entries[1].value.entries[0].value.real, 1e-3);
  EXPECT_EQ(optimizer.entries[1].value.entries[1].value.items.at(1).real, 0.99);
  EXPECT_EQ(root.entries[2].value.entries[0].value.boolean, false);
  EXPECT_EQ(root.entries[3].value.text, "two\n lines");
  EXPECT_EQ(root.entries[4].value.text, "runs/a b 3");
  EXPECT_EQ(json("{a: tru\n b: null\n}").entries[0].value.text, "tru");
  EXPECT_EQ(json("{a: null\n b: 1\n}").entries[0].value.kind, Kind::null);
  expect_hjson_refused([] { json("a: 1 b: 2"); }, "f:1:6: ", "','");
  expect_hjson_refused([] { json("a: '''x"); }, "f:1:4: ", "quotes");
}

TEST_F(ConfigTest, JsonFilesAreStrict) {
  const auto of_file = [&](const fs::path& path) { return error(ConfigSources{.files = {path}}); };
  EXPECT_PART(of_file(write("cut.json", "{\"seed\": ")), "cut.json:1:10: is not valid JSON");
  EXPECT_PART(of_file(write("dup.json", "{\"seed\": 1,\n \"seed\": 2}")),
              "dup.json:2:2: Duplicate keys in DeepSpeed config: ['seed']; the first is in line 1");
  EXPECT_PART(of_file(write("dups.json", "{\"a\": 1, \"b\": {\"c\": 1}, \"a\": 2, \"b\": 3, \"a\": 4}")),
              "Duplicate keys in DeepSpeed config: ['a', 'b']");
  // Braces make it JSON whatever it is called, so that comments are understood.
  optimizer<optim::Sgd>(load_config(
      {.files = {write("ds_config", "\xef\xbb\xbf{ // c\n\"optimizer\": {\"type\": \"SGD\"}}")}}, &warnings_));
}

}  // namespace
}  // namespace ct::document
