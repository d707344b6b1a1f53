// Inputs that are long where a fuzzer's are short: their time and memory show what grows faster than the input.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "target.h"

namespace ct::fuzz {
namespace {

constexpr size_t kBytes = size_t{1} << 18;

std::string repeated(std::string_view part, size_t bytes = kBytes) {
  std::string text;
  while (text.size() + part.size() < bytes) text += part;
  return text;
}
/// With the number of each part in place of '#'.
std::string numbered(std::string_view part, size_t bytes = kBytes) {
  std::string text;
  for (size_t i = 0; text.size() + part.size() + 8 < bytes; ++i)
    for (const char c : part) c == '#' ? text += std::to_string(i) : text += c;
  return text;
}

struct Long {
  const char *target, *name;
  std::function<std::string()> text;
};

const Long kLong[] = {
    {"config_json", "list", [] { return "{\"x-a\": [" + repeated("1,") + "]}"; }},
    {"config_json", "texts", [] { return "{\"x-a\": [" + repeated("\"b\",") + "]}"; }},
    {"config_json", "keys", [] { return "{" + numbered("x-#:1,") + "}"; }},
    {"config_json", "lines", [] { return numbered("x-#: a b\n"); }},
    {"config_json", "comments", [] { return repeated("/**/"); }},
    {"config_json", "brackets", [] { return repeated("["); }},
    {"config_json", "margins", [] { return "a: '''" + repeated("\n ") + "'''"; }},
    {"config_yaml", "list", [] { return "x-a: [" + repeated("1,") + "]"; }},
    {"config_yaml", "keys", [] { return numbered("x-#: 1\n"); }},
    {"config_yaml", "keys in a line", [] { return "{" + numbered("x-#: 1, ") + "}"; }},
    {"config_yaml", "brackets", [] { return repeated("["); }},
    {"config_yaml", "braces", [] { return repeated("{"); }},
    {"config_yaml", "dashes", [] { return repeated("- "); }},
    {"config_yaml", "indented", [] { return repeated("- \n "); }},
    {"config_yaml", "questions", [] { return repeated("? "); }},
    {"config_yaml", "one text", [] { return "x-a: " + repeated("b "); }},
    {"config_yaml", "a text of lines", [] { return "x-a: |\n" + repeated("  b\n"); }},
    {"config_yaml", "anchors", [] { return numbered("a#: &b# 1\n"); }},
    {"config_words", "words", [] { return numbered("\nx-#=1"); }},
    {"config_words", "base64", [] { return repeated("eyAg"); }},
    {"env_file", "keys", [] { return numbered("A#=1\n"); }},
    {"env_file", "values that double", [] { return "A0=x\n" + numbered("B#=$A0$A0\n"); }},
    {"environment", "variables", [] { return numbered("A#=1\n"); }},
    {"hosts", "of many slots", [] { return "\n\n" + numbered("a# slots=65536\n"); }},
    {"hosts", "many", [] { return "\n\n" + numbered("a# slots=1\n"); }},
    {"hosts", "many included",
     [] { return numbered("a#@", kBytes / 2) + "\n\n" + numbered("a# slots=1\n", kBytes / 2); }},
    {"hosts", "many slots included", [] { return "a:" + numbered("#,") + "\n\na slots=65536\n"; }},
    {"metrics", "deep", [] { return R"({"event":"step","step":1,"loss":)" + repeated("[") + repeated("]") + "}\n"; }},
    {"metrics", "lines", [] { return repeated("{\"event\":\"step\",\"step\":1}\n"); }},
    {"state", "deep", [] { return repeated("["); }},
    {"state", "keys", [] { return "{" + numbered("\"#\":1,") + "\"a\":1}"; }},
    {"manifest", "files",
     [] {
       return R"({"manifest_crc32c":"00000000","version":1,"step":1,"run":"","model":"","files":[)" +
              numbered(R"({"name":"optim-#-of-999999.safetensors","bytes":1,"crc32c":"00000000"},)") + "{}]}";
     }},
    {"safetensors", "tensors",
     [] {
       return "{" + numbered(R"("#":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)") +
              R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
     }},
    {"safetensors", "dimensions",
     [] { return R"({"a":{"dtype":"U8","shape":[)" + repeated("1,") + R"(1],"data_offsets":[0,0]}})"; }},
    {"safetensors", "notes", [] { return R"({"__metadata__":{)" + numbered(R"("#":"",)") + R"("a":""}})"; }},
    {"torch_pickle", "lists", [] { return "\x80\x02" + repeated("]\x94"); }},
    {"torch_pickle", "marks", [] { return "\x80\x02" + repeated("("); }},
    {"torch_pickle", "dicts", [] { return "\x80\x02" + repeated("}"); }},
    {"torch_pickle", "tensors",
     [] {
       using namespace std::string_literals;
       const std::string shape = "(" + repeated("K\1", 129) + "tq\2";  // of 64 dimensions
       const std::string storage = "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0a0X\1\0\0\0a0tQ"s;
       return "\x80\x02"s + shape + "0" +
              "ctorch._utils\n_rebuild_tensor_v2\nq\0"
              "0("s +
              storage +
              "K\0h\2h\2tq\1"
              "0"s +
              repeated("h\0h\1R"s);
     }},
    {"cifar_python", "labels", [] { return std::string("\0\x80\x02}(U\6labels](", 15) + repeated("K\1"); }},
};

class LongInputs : public testing::TestWithParam<Long> {};

TEST_P(LongInputs, AreReadOrRefusedWithinTheirBounds) {
  const auto target = std::ranges::find(targets(), std::string_view(GetParam().target), &Target::name);
  ASSERT_NE(target, targets().end());
  const std::string text = GetParam().text();
  EXPECT_NO_THROW(EXPECT_EQ(problem_with(*target, std::as_bytes(std::span(text))), ""));
}

INSTANTIATE_TEST_SUITE_P(Fuzz, LongInputs, testing::ValuesIn(kLong), [](const auto& of) {
  std::string name = str(of.param.target, "_", of.param.name);
  std::ranges::replace(name, ' ', '_');
  return name;
});

}  // namespace
}  // namespace ct::fuzz
