#include "data/mnist/mnist_set.h"

#include "data/data_fixture.h"
#include "data/locate.h"

namespace ct {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

void put(Bytes& to, uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) to.push_back(static_cast<uint8_t>(number >> shift));
}

Bytes images(uint32_t count, uint32_t magic = 0x803, uint32_t rows = 28, uint32_t columns = 28) {
  Bytes bytes;
  for (const uint32_t number : {magic, count, rows, columns}) put(bytes, number);
  for (size_t i = 0; i < size_t{count} * rows * columns; ++i) bytes.push_back(static_cast<uint8_t>(i * 7 + i / 784));
  return bytes;
}

Bytes labels(const Bytes& of, uint32_t magic = 0x801) {
  Bytes bytes;
  put(bytes, magic);
  put(bytes, static_cast<uint32_t>(of.size()));
  bytes.insert(bytes.end(), of.begin(), of.end());
  return bytes;
}

class MnistSetTest : public DataFixture {
 protected:
  fs::path make(const std::string& name = "mnist") const {
    const fs::path folder = root / name;
    fs::create_directories(folder);
    write(folder / "train-images-idx3-ubyte", images(5));
    write(folder / "train-labels-idx1-ubyte", labels({3, 1, 9, 0, 3}));
    write(folder / "t10k-images-idx3-ubyte", images(2));
    write(folder / "t10k-labels-idx1-ubyte", labels({8, 7}));
    return folder;
  }
};

TEST_F(MnistSetTest, HasImagesAndLabels) {
  const fs::path folder = make();
  const MnistSet train(folder, Split::train, OnCorrupt::error), test(folder, Split::test, OnCorrupt::error);
  EXPECT_EQ(train.name(), "MNIST");
  EXPECT_EQ(train.shape(), (SampleShape{1, 28, 28}));
  EXPECT_EQ(train.class_names(), (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
  ASSERT_EQ(train.count(), 5);
  ASSERT_EQ(test.count(), 2);
  EXPECT_EQ(train.label(2), 9);
  EXPECT_EQ(test.label(1), 7);
  const Bytes file = images(5);
  Bytes sample(784);
  for (int i = 0; i < 5; ++i) {
    train.read(i, {}, sample.data());
    EXPECT_TRUE(std::equal(sample.begin(), sample.end(), file.begin() + 16 + i * 784)) << i;
  }
}

TEST_F(MnistSetTest, AFolderOfFashionHasItsClasses) {
  make("fashion-mnist");
  const DataSource found = locate_data("mnist", root);
  const auto set = found.kind->open(found, Split::train, {});
  EXPECT_EQ(set->class_names()[9], "Ankle boot");
  EXPECT_EQ(MnistSet(make("FashionMNIST/raw"), Split::test, OnCorrupt::error).class_names()[0], "T-shirt/top");
}

TEST_F(MnistSetTest, TheFingerprintIsOfPixelsAndLabels) {
  const fs::path folder = make();
  const auto fingerprint = [&] { return MnistSet(folder, Split::train, OnCorrupt::error).fingerprint(); };
  const uint32_t whole = fingerprint();
  EXPECT_EQ(fingerprint(), whole);
  write(folder / "train-labels-idx1-ubyte", labels({3, 1, 9, 0, 4}));
  EXPECT_NE(fingerprint(), whole);
  make();
  EXPECT_EQ(fingerprint(), whole);
  Bytes pixels = images(5);
  pixels.back() ^= 1;
  write(folder / "train-images-idx3-ubyte", pixels);
  EXPECT_NE(fingerprint(), whole);
}

struct Damage {
  std::string file;
  Bytes bytes;
  std::vector<std::string> words;
};

std::vector<Damage> damages() {
  const std::string pixels = "train-images-idx3-ubyte", names = "train-labels-idx1-ubyte";
  Bytes cut = images(5), longer = labels({3, 1, 9, 0, 3}), none = images(0), many = images(5);
  cut.pop_back();
  longer.push_back(0);
  many[4] = 255;  // as if it had 4 thousand million images
  return {{pixels, {}, {"empty"}},
          {pixels, Bytes(15), {"truncated", "15 bytes", "16"}},
          {pixels, cut, {"truncated", "3935 bytes where 3936 belong"}},
          {pixels, many, {"truncated", "3354101026656"}},
          {pixels, images(5, 0x801), {"begins with the number 2049", "2051"}},
          {pixels, {0x1f, 0x8b, 8, 0}, {"still compressed"}},
          {pixels, none, {"0 items"}},
          {pixels, images(5, 0x803, 32, 32), {"images of 32x32", "28x28"}},
          {pixels, images(5, 0x803, 14, 56), {"images of 14x56", "28x28"}},
          {names, {}, {"empty"}},
          {names, Bytes(7), {"truncated"}},
          {names, labels({1}, 0x803), {"begins with the number 2051", "2049"}},
          {names, labels({}), {"0 items"}},
          {names, longer, {"too long", "14 bytes where 13 belong"}},
          {names, labels({1, 2, 3, 4}), {"4 labels for 5 images"}}};
}

TEST_F(MnistSetTest, DamagedFilesAreNamedWithTheRemedy) {
  for (const Damage& damage : damages()) {
    const fs::path folder = make();
    write(folder / damage.file, damage.bytes);
    std::vector<std::string> words = damage.words;
    words.insert(words.end(), {(folder / damage.file).string() + ": ", "gunzip -k", "https://"});
    expect_error(ExitCode::data, words, [&] { MnistSet(folder, Split::train, OnCorrupt::skip); });
    EXPECT_EQ(MnistSet(folder, Split::test, OnCorrupt::error).count(), 2);
  }
  const fs::path folder = make(), file = folder / "train-images-idx3-ubyte";
  const auto open = [&] { MnistSet(folder, Split::train, OnCorrupt::error); };
  fs::remove(file);
  expect_error(ExitCode::data, {file.string(), "no such file; ", "gunzip"}, open);
  write(file.string() + ".gz", {1});
  expect_error(ExitCode::data, {file.string(), "no such file, only train-images-idx3-ubyte.gz;", "gunzip"}, open);
  fs::create_directory(file);
  expect_error(ExitCode::data, {file.string(), "not a file", "gunzip"}, open);
}

TEST_F(MnistSetTest, BadLabelsAreRefusedOrSkipped) {
  const fs::path folder = make();
  write(folder / "train-labels-idx1-ubyte", labels({3, 10, 9, 255, 3}));
  expect_error(ExitCode::data, {"train-labels-idx1-ubyte", "label 1 is 10", "0 to 9", "data.on_corrupt"},
               [&] { MnistSet(folder, Split::train, OnCorrupt::error); });
  const MnistSet set(folder, Split::train, OnCorrupt::skip);
  EXPECT_EQ(set.count(), 3);
  EXPECT_EQ(set.skipped(), 2);
  EXPECT_EQ(set.label(1), 9);
  Bytes sample(784);
  set.read(1, {}, sample.data());
  EXPECT_EQ(sample[0], images(5)[16 + 2 * 784]);
  write(folder / "train-labels-idx1-ubyte", labels(Bytes(5, 10)));
  expect_error(ExitCode::data, {"train-labels-idx1-ubyte", "no label is valid"},
               [&] { MnistSet(folder, Split::train, OnCorrupt::skip); });
}

TEST_F(MnistSetTest, NoticesAFileThatChanges) {
  const fs::path folder = make();
  const MnistSet set(folder, Split::train, OnCorrupt::error);
  set.check_unchanged();
  set.check_not_cut();
  fs::resize_file(folder / "train-images-idx3-ubyte", 100);
  expect_error(ExitCode::data, {"train-images-idx3-ubyte", "changed while it was in use"},
               [&] { set.check_unchanged(); });
}

TEST_F(MnistSetTest, TheKindFindsItAndTellsHowToGetIt) {
  const fs::path folder = make();
  for (const fs::path& path : {root, folder, fs::path(folder.string() + "/")}) {
    const DataSource source = locate_data("mnist", path);
    EXPECT_EQ(source.kind->name, "MNIST");
    EXPECT_EQ(source.folder, folder);
    EXPECT_EQ(source.kind->open(source, Split::test, {})->count(), 2);
  }
  // One file is enough, so that the others are missed by name; a folder without any is none.
  for (const std::string name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"})
    fs::remove(folder / name);
  EXPECT_EQ(locate_data("mnist", root).folder, folder);
  fs::rename(folder / "t10k-images-idx3-ubyte", folder / "t10k-images-idx3-ubyte.gz");
  EXPECT_EQ(locate_data("mnist", root).folder, folder);
  // What most networks do not take is not taken unasked.
  expect_error(ExitCode::data, {folder.string(), "data.dataset: mnist"}, [&] { locate_data("auto", root); });
  EXPECT_FALSE(find_data("auto", root));
  fs::remove(folder / "t10k-images-idx3-ubyte.gz");
  expect_error(ExitCode::data, {root.string(), "no mnist", "https://", folder.string() + "/", "gunzip"},
               [&] { locate_data("mnist", root); });
}

TEST_F(MnistSetTest, TheKindKnowsSizesAndDamage) {
  const fs::path folder = make();
  const DataKind& kind = *find_kind("mnist");
  const DataSize usual = kind.size({}, {}), here = kind.size({.folder = folder}, {});
  EXPECT_EQ(usual.spec.test_images, 10000);
  EXPECT_EQ(usual.bytes, 70000 * 784);
  EXPECT_EQ(here.spec.test_images, 2);
  EXPECT_EQ(here.bytes, 7 * 784);
  EXPECT_EQ(here.spec.sample, (SampleShape{1, 28, 28}));
  EXPECT_EQ(problem_of(kind, folder), "");
  const auto reports = kind.verify(folder, {}, Depth::every_byte);
  ASSERT_EQ(reports.size(), 4u);
  for (const FileReport& report : reports) EXPECT_EQ(report.problem, "") << report.path;
  EXPECT_EQ(reports[0].records, 5);
  EXPECT_EQ(reports[0].bytes, 16u + 5 * 784);
  EXPECT_EQ(reports[0].sha256.size(), 64u);
  for (const Damage& damage : damages()) {
    make();
    write(folder / damage.file, damage.bytes);
    const FileReport report = kind.verify(folder, {}, Depth::every_byte)[damage.file == "train-labels-idx1-ubyte"];
    for (const std::string& word : damage.words) EXPECT_NE(report.problem.find(word), std::string::npos) << word;
    EXPECT_EQ(problem_of(kind, folder), damage.file + ": " + report.problem);
  }
  make();
  write(folder / "t10k-labels-idx1-ubyte", labels({8, 10}));
  EXPECT_EQ(kind.verify(folder, {}, Depth::every_byte)[3].problem, "label 1 is 10, the classes are 0 to 9");
  fs::remove(folder / "t10k-images-idx3-ubyte");
  EXPECT_EQ(problem_of(kind, folder), "t10k-images-idx3-ubyte: no such file");
}

}  // namespace
}  // namespace ct
