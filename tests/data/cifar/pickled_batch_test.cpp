#include "data/cifar/python/pickled_batch.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/cifar/pickle_writer.h"

namespace ct {
namespace {

const std::vector<std::string> kPickledNames = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                "dog",      "frog",       "horse", "ship", "truck"};

std::string some_pixels(size_t images) {
  std::string pixels(images * 3072, '\0');
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<char>(i * 7 + i / 3072);
  return pixels;
}

PickledBatch read(const std::string& pickle) { return read_pickled_batch(std::as_bytes(std::span(pickle))); }

std::string problem(const std::string& pickle, bool names = false) {
  try {
    names ? (void)read_pickled_names(std::as_bytes(std::span(pickle))) : (void)read(pickle);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

void expect_word(const std::string& word, const std::string& found) {
  EXPECT_NE(found.find(word), std::string::npos) << word << " in: " << found;
}

TEST(PickledBatch, IsReadAsItWasWritten) {
  const std::string pixels = some_pixels(1003);
  std::vector<int> labels;
  for (int i = 0; i < 1003; ++i) labels.push_back(i * 3 % 10);
  const std::string pickle = pickles::batch({labels, pixels});
  const PickledBatch batch = read(pickle);
  EXPECT_EQ(batch.labels, std::vector<uint8_t>(labels.begin(), labels.end()));
  EXPECT_FALSE(batch.by_columns);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(batch.pixels.data()), batch.pixels.size()), pixels);
  const std::string transposed = pickles::batch({labels, pixels, true});
  EXPECT_TRUE(read(transposed).by_columns);
}

TEST(PickledBatch, TheArchivesNamesAreRead) {
  const std::string pickle = pickles::names(kPickledNames);
  EXPECT_EQ(pickle.size(), 158u);  // as the archive's own
  EXPECT_EQ(read_pickled_names(std::as_bytes(std::span(pickle))), kPickledNames);
  expect_word("9 class names, not 10", problem(pickles::names({kPickledNames.begin(), kPickledNames.end() - 1}), true));
  std::vector<std::string> more = kPickledNames;
  more.push_back("more");
  expect_word("more than 10", problem(pickles::names(more), true));
  more.resize(10);
  more[3].clear();
  expect_word("an empty class name", problem(pickles::names(more), true));
}

TEST(PickledBatch, StringsMayBeUnicode) {
  std::string pickle = pickles::batch({{1, 2}, some_pixels(2)});
  const std::string bytes = pickles::text("labels");
  pickle.replace(pickle.find(bytes), bytes.size(), "X" + pickles::little(6, 4) + "labels");
  EXPECT_EQ(read(pickle).labels, (std::vector<uint8_t>{1, 2}));
}

TEST(PickledBatch, AnyOtherOpcodeIsRefusedWithItsPlace) {
  const std::string good = pickles::batch({{1, 2, 3}, some_pixels(3)});
  ASSERT_EQ(problem(good), "");
  // What would run a program, in place of the dict, of a value and of numpy's names.
  expect_word("at byte 2 opcode 0x63", problem("\x80\x02"
                                               "cos\nsystem\n(U\x04trueo."));
  const size_t label = good.find("training batch") - 2;
  expect_word("at byte " + std::to_string(label) + " opcode 0x63",
              problem(good.substr(0, label) + "cos\nsystem\nU\x04true\x85R" + good.substr(label)));
  std::string other = good;
  other.replace(other.find("_reconstruct"), 12, "_evil_things");
  expect_word("a name other than numpy.core.multiarray._reconstruct", problem(other));
  other = good;
  other.replace(other.find("cnumpy\ndtype"), 12, "cbuiltins\neval");
  expect_word("a name other than numpy.dtype", problem(other));
  for (const char opcode : {'R', 'b', 'i', 'o', 'P', 'Q', '\x81', '\x82', 'd', 'l', 'S', 'I', '0', '2'}) {
    std::string bad = good;
    bad[label] = opcode;
    expect_word("at byte " + std::to_string(label) + " opcode 0x", problem(bad));
  }
}

TEST(PickledBatch, EveryLengthIsRefused) {
  const std::string good = pickles::batch({{1, 2}, some_pixels(2)});
  for (size_t size = 0; size < good.size(); ++size) EXPECT_NE(problem(good.substr(0, size)), "") << size;
  expect_word("1 bytes after its end", problem(good + "."));
  expect_word("truncated", problem(""));
}

TEST(PickledBatch, FlippedBitsNeverDoMoreThanChangeValues) {
  const std::string good = pickles::batch({{1, 2}, some_pixels(2)});
  const size_t pixels = good.find(some_pixels(2));
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    if (bit / 8 == pixels) bit += size_t{8} * 6144;
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    const std::string found = problem(bad);  // no crash, nothing read outside
    if (found.empty()) {
      EXPECT_EQ(read(bad).labels.size(), 2u);
    }
  }
}

TEST(PickledBatch, OtherContentIsNamed) {
  const std::string pixels = some_pixels(2);
  expect_word("label 10, the classes are 0 to 9", problem(pickles::batch({{1, 10}, pixels})));
  expect_word("label -1", problem(pickles::batch({{1, -1}, pixels})));
  expect_word("an array of 3 x 3072", problem(pickles::batch({{1, 2, 3}, pixels})));
  using pickles::dict, pickles::list, pickles::number, pickles::text, pickles::array;
  const std::string labels = list({number(1), number(2)});
  expect_word("2 labels for 0 images", problem(dict({text("labels"), labels})));
  expect_word("0 labels for 2 images", problem(dict({text("data"), array(2, pixels)})));
  expect_word("3 labels for 2 images",
              problem(dict({text("data"), array(2, pixels), text("labels"), list({number(1), number(2), number(3)})})));
  expect_word("'fine_labels'", problem(dict({text("fine_labels"), labels})));
  expect_word("'labels' a second time", problem(dict({text("labels"), labels, text("labels"), labels})));
  expect_word("\\x0a", problem(dict({text("a\nb"), labels})));
  std::string columns = pickles::batch({{1, 2}, pixels});
  columns.replace(columns.find(number(3072)), 3, number(3073));
  expect_word("not of 3072 columns", problem(columns));
  std::string type = pickles::batch({{1, 2}, pixels});
  type.replace(type.find("u1"), 2, "f8");
  expect_word("a string other than 'u1'", problem(type));
  expect_word("protocol 3, not 2", problem("\x80\x03}."));
  expect_word("instead of a pickle", problem("(dp0\nS'labels'\n"));
}

}  // namespace
}  // namespace ct
