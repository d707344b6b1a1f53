#include "data/packed/pack.h"

#include "base/random.h"
#include "base/sha256.h"
#include "data/data_fixture.h"
#include "data/locate.h"
#include "data/made_up_set.h"
#include "data/packed/memory_pictures.h"
#include "data/packed/packed_set.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kClasses = {"crab", "gull", "ray"};

class PackTest : public DataFixture {
 protected:
  static MemoryPictures pictures(int count, int first, int width = 12, int height = 10) {
    std::vector<MemoryPicture> all;
    for (int i = first; i < first + count; ++i)
      all.push_back({str("/root/folder/", kClasses[static_cast<size_t>(i % 3)], "/", i, ".png"), i % 3,
                     png_file(width + i, height, i)});
    return {kClasses, std::move(all)};
  }
  fs::path out(const std::string& name = "a.ctpack") const { return root / name; }
  PackedCounts packed(const DataSet& train, const DataSet& test, PackOptions options = {}) {
    options.root = "/root/folder";
    return pack(files_, out(), train, test, options);
  }
  PackedSet open(Split split, OnCorrupt on_corrupt = OnCorrupt::error) const {
    return {out(), split, {.size = 8, .resize = 8}, on_corrupt};
  }
  void flip(uint64_t at) const {
    std::string bytes = text(out());
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    std::ofstream(out(), std::ios::binary) << bytes;
  }
  uint64_t offset_of(Split split, int64_t i) const {
    return PackedFile(out()).index().of(split)[static_cast<size_t>(i)].offset;
  }

  FileSystem files_;
};

TEST_F(PackTest, PicturesAreKeptAsTheyAre) {
  const auto train = pictures(7, 0), test = pictures(4, 7);
  std::vector<int64_t> seen;
  const PackedCounts counts = packed(train, test, {.progress = [&](int64_t done, int64_t of) {
                                       EXPECT_EQ(of, 11);
                                       seen.push_back(done);
                                     }});
  EXPECT_EQ(seen.size(), 11u);
  EXPECT_EQ(counts.train, 7);
  EXPECT_EQ(counts.test, 4);
  EXPECT_EQ(counts.left_out, 0);
  EXPECT_EQ(counts.bytes, fs::file_size(out()));
  for (const auto& [split, source] : {std::pair(Split::train, &train), std::pair(Split::test, &test)}) {
    const PackedSet set = open(split);
    EXPECT_EQ(set.class_names(), kClasses);
    EXPECT_EQ(set.shape(), (SampleShape{3, 8, 8}));
    EXPECT_FALSE(set.direct());
    ASSERT_EQ(set.count(), source->count());
    std::vector<std::byte> scratch;
    std::vector<uint32_t> all;
    for (int64_t i = 0; i < set.count(); ++i) all.push_back(static_cast<uint32_t>(i));
    set.prefetch(all, {});
    for (int64_t i = 0; i < set.count(); ++i) {
      const auto found = set.bytes(i, scratch), expected = source->bytes(i, scratch);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end())) << i;
      EXPECT_EQ(set.label(i), source->label(i));
      const std::string name = source->picture_name(i);
      EXPECT_EQ(set.picture_name(i), out().string() + ": " + name.substr(name.find("folder/") + 7));
      std::vector<uint8_t> sample(set.shape().bytes()), from_source(sample.size());
      EXPECT_TRUE(set.read(i, {}, sample.data()));
      source->read(i, {}, from_source.data());
      EXPECT_EQ(sample, from_source) << i;
    }
  }
}

TEST_F(PackTest, TheBytesAreTheSameForAnyNumberOfThreads) {
  const auto train = pictures(40, 0, 40, 30), test = pictures(9, 40, 20, 50);
  packed(train, test, {.resize = 16, .quality = 80});
  const std::string once = text(out());
  for (const int threads : {2, 5, 16}) {
    packed(train, test, {.resize = 16, .quality = 80, .threads = threads});
    EXPECT_TRUE(text(out()) == once) << threads;
  }
}

TEST_F(PackTest, OnlyLargerPicturesAreResized) {
  const auto train = pictures(3, 0, 64, 40), test = pictures(3, 0, 14, 100);
  packed(train, test, {.resize = 16, .quality = 95});
  std::vector<std::byte> scratch;
  for (int64_t i = 0; i < 3; ++i) {
    const PackedSet shrunk = open(Split::train);
    const Picture small = decode(shrunk.bytes(i, scratch)), large = decode(train.bytes(i, scratch));
    EXPECT_EQ(shrunk.bytes(i, scratch)[0], std::byte{0xff});  // a JPEG file
    EXPECT_EQ(small.height, 16);
    EXPECT_EQ(small.width, large.width * 16 / 40);
    const uint8_t *a = small.row(8) + 3 * (small.width / 2), *b = large.row(20) + 3 * (large.width / 2);
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(a[c], b[c], 12) << c;
    const auto kept = open(Split::test).bytes(i, scratch), before = test.bytes(i, scratch);
    EXPECT_EQ(kept.size(), before.size());
  }
}

TEST_F(PackTest, SamplesOfOtherSetsBecomePng) {
  const MadeUpSet train({3, 6, 5}, 4, 9), test({3, 6, 5}, 4, 3), grey({1, 4, 4}, 4, 2);
  packed(train, test);
  const PackedFile file(out());
  EXPECT_EQ(file.index().class_names, train.class_names());
  EXPECT_EQ(file.index().name(Split::test, 2), "test/2");
  for (size_t i = 0; i < 9; ++i) {
    const Picture picture = decode(file.bytes(file.index().of(Split::train)[i]));
    ASSERT_EQ(picture.width, 5);
    ASSERT_EQ(picture.height, 6);
    std::vector<uint8_t> sample(90);
    train.read(static_cast<int64_t>(i), {}, sample.data());
    for (size_t p = 0; p < 30; ++p)
      for (size_t c = 0; c < 3; ++c) EXPECT_EQ(picture.rgb[3 * p + c], sample[c * 30 + p]);
  }
  packed(grey, grey);
  const PackedFile of_grey(out());
  const Picture picture = decode(of_grey.bytes(of_grey.index().of(Split::test)[1]));
  std::vector<uint8_t> sample(16);
  grey.read(1, {}, sample.data());
  EXPECT_EQ(picture.rgb[3 * 7], sample[7]);
  EXPECT_EQ(picture.rgb[3 * 7 + 2], sample[7]);
}

TEST_F(PackTest, DamagedPicturesAreNamedOrLeftOut) {
  std::vector<MemoryPicture> some;
  for (int i = 0; i < 6; ++i) some.push_back({str("/root/folder/crab/", i, ".png"), 0, png_file(9, 9, i)});
  some[2].file.resize(some[2].file.size() / 2);
  some[4].file.assign(100, std::byte{'x'});
  const MemoryPictures train(kClasses, some), test = pictures(3, 0);
  for (const int threads : {1, 7})
    expect_error(ExitCode::data, {"/root/folder/crab/2.png", "--on-corrupt skip"},
                 [&] { packed(train, test, {.threads = threads}); });
  EXPECT_TRUE(fs::is_empty(root));  // a refused one leaves nothing

  std::vector<std::string> told;
  const PackedCounts counts = packed(
      train, test, {.on_corrupt = OnCorrupt::skip, .left_out = [&](const std::string& what) { told.push_back(what); }});
  EXPECT_EQ(counts.train, 4);
  EXPECT_EQ(counts.left_out, 2);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[0].starts_with("/root/folder/crab/2.png: ")) << told[0];
  EXPECT_TRUE(told[1].starts_with("/root/folder/crab/4.png: ")) << told[1];
  EXPECT_TRUE(open(Split::train).picture_name(2).ends_with("crab/3.png"));

  some.resize(3);
  some.erase(some.begin(), some.begin() + 2);
  const MemoryPictures none(kClasses, some);
  expect_error(ExitCode::data, {"/root/folder", "no picture to train on is left"},
               [&] { packed(none, test, {.on_corrupt = OnCorrupt::skip}); });
  expect_error(ExitCode::data, {"/root/folder/crab/0.png", "9x9"}, [&] {
    some = {{"/root/folder/crab/0.png", 0, png_file(9, 9, 0)}};
    packed(MemoryPictures(kClasses, some), test, {.max_pixels = 80});
  });
}

TEST_F(PackTest, FilesOfAKilledConversionAreNoObstacle) {
  write(root / ".tmp-a.ctpack", {1, 2, 3});
  packed(pictures(2, 0), pictures(2, 2));
  EXPECT_FALSE(fs::exists(root / ".tmp-a.ctpack"));
  EXPECT_EQ(open(Split::train).count(), 2);
  // A folder that is not there yet is made.
  EXPECT_EQ(pack(files_, root / "x" / "y" / "b.ctpack", pictures(2, 0), pictures(2, 2), {}).train, 2);
}

TEST_F(PackTest, ADiskThatFailsLeavesTheOldFile) {
  struct Full : FileSystem {
    int64_t left = 0;
    ssize_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) override {
      if (--left > 0) return FileSystem::write_at(fd, bytes, offset);
      errno = ENOSPC;
      return -1;
    }
  } full;
  packed(pictures(2, 0), pictures(2, 2));
  const std::string old = text(out());
  for (full.left = 1; full.left < 8;) {
    const int64_t writes = full.left;
    expect_error(ExitCode::io, {"a.ctpack", "No space left"},
                 [&] { pack(full, out(), pictures(4, 0), pictures(3, 2), {.threads = 3}); });
    EXPECT_TRUE(text(out()) == old);
    full.left = writes + 1;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(root), {}), 1);
}

/// Its files were written over while they were read.
class ChangedSet : public MadeUpSet {
 public:
  using MadeUpSet::MadeUpSet;
  void check_unchanged() const override { fail(ExitCode::data, "changed while it was in use"); }
};

TEST_F(PackTest, SetsThatChangeMeanwhileAreNotPacked) {
  const MadeUpSet whole({1, 4, 4}, 4, 2);
  const ChangedSet changed({1, 4, 4}, 4, 2);
  std::ofstream(out()) << "old";
  expect_error(ExitCode::data, {"changed while it was in use"}, [&] { packed(changed, whole); });
  expect_error(ExitCode::data, {"changed while it was in use"}, [&] { packed(whole, changed); });
  EXPECT_EQ(text(out()), "old");
}

// ---- the set

TEST_F(PackTest, TheFingerprintIsOfPicturesAndLabels) {
  const auto fingerprint = [&](const DataSet& train) {
    packed(train, pictures(2, 0));
    return open(Split::train).fingerprint();
  };
  const uint32_t some = fingerprint(pictures(5, 0));
  EXPECT_EQ(fingerprint(pictures(5, 0)), some);
  EXPECT_NE(fingerprint(pictures(5, 1)), some);
  std::vector<MemoryPicture> all;
  for (int i = 0; i < 5; ++i) all.push_back({str(i), i % 3, png_file(12 + i, 10, i)});
  EXPECT_EQ(fingerprint(MemoryPictures(kClasses, all)), some);
  all[3].label = 2;
  EXPECT_NE(fingerprint(MemoryPictures(kClasses, all)), some);
}

TEST_F(PackTest, ADamagedPictureIsNamedWhenItIsRead) {
  packed(pictures(5, 0), pictures(3, 5));
  flip(offset_of(Split::train, 3) + 20);
  const PackedSet set = open(Split::train);
  std::vector<uint8_t> sample(set.shape().bytes());
  EXPECT_TRUE(set.read(2, {}, sample.data()));
  expect_error(ExitCode::data, {out().string(), "crab/3.png", "checksum"}, [&] { set.read(3, {}, sample.data()); });
  EXPECT_FALSE(open(Split::train, OnCorrupt::skip).read(3, {}, sample.data()));
}

TEST_F(PackTest, AnOverwrittenFileIsDistinguishedFromADamagedOne) {
  packed(pictures(5, 0), pictures(3, 5));
  const uint64_t at = offset_of(Split::train, 4);
  const PackedSet set = open(Split::train);
  set.check_unchanged();
  set.check_not_cut();
  std::fstream(out(), std::ios::binary | std::ios::in | std::ios::out).seekp(static_cast<int64_t>(at) + 9).put('!');
  fs::last_write_time(out(), fs::file_time_type::clock::now() + std::chrono::seconds(5));
  std::vector<std::byte> scratch;
  expect_error(ExitCode::data, {"a.ctpack", "changed while it was in use"}, [&] { set.bytes(4, scratch); });
  expect_error(ExitCode::data, {"changed while it was in use"}, [&] { set.check_unchanged(); });
}

TEST_F(PackTest, AnIndexThatIsWrittenOverLeadsNowhere) {
  packed(pictures(5, 0), pictures(3, 5));
  const PackedSet set = open(Split::train);
  {
    std::fstream file(out(), std::ios::binary | std::ios::in | std::ios::out);
    file << std::string(sizeof(PackedHeader) + 8 * sizeof(PackedEntry), '\xff');
  }
  const uint32_t all[] = {0, 4};
  set.prefetch(all, {});
  std::vector<uint8_t> sample(set.shape().bytes());
  expect_error(ExitCode::data, {out().string(), "changed while it was in use"},
               [&] { set.read(4, {}, sample.data()); });
}

TEST_F(PackTest, AFileThatIsReplacedStaysTheOldOne) {
  packed(pictures(5, 0), pictures(3, 5));
  const PackedSet set = open(Split::train);
  packed(pictures(3, 1), pictures(3, 5));
  std::vector<std::byte> scratch;
  for (int64_t i = 0; i < 5; ++i) EXPECT_NO_THROW(set.bytes(i, scratch));
  EXPECT_NO_THROW(set.check_unchanged());
}

// ---- the kind

TEST_F(PackTest, ItIsFoundByItsNameOrItsFolder) {
  expect_error(ExitCode::data, {root.string(), "no *.ctpack", "data convert", "NAME.ctpack"},
               [&] { locate_data("packed", root); });
  packed(pictures(5, 0), pictures(3, 5));
  write(root / ".tmp-b.ctpack", {1});
  for (const char* dataset : {"auto", "packed"})
    for (const fs::path& path : {root, out()}) {
      const DataSource source = locate_data(dataset, path);
      EXPECT_EQ(source.kind->key, "packed");
      EXPECT_EQ(source.folder, out());
      const auto test = source.kind->open(source, Split::test, {});
      EXPECT_EQ(test->count(), 3);
      EXPECT_EQ(test->shape(), (SampleShape{3, 224, 224}));
    }
  EXPECT_EQ(find_data("auto", out())->folder, out());
  expect_error(ExitCode::data, {"a.ctpack", "not a folder"}, [&] { locate_data("cifar10", out()); });
  write(root / "file.txt", {1});
  expect_error(ExitCode::data, {"file.txt", "not a folder"}, [&] { locate_data("auto", root / "file.txt"); });
  expect_error(ExitCode::data, {"file.txt", "no *.ctpack"}, [&] { locate_data("packed", root / "file.txt"); });
  expect_error(ExitCode::data, {"no.ctpack", "no such file", "data convert"},
               [&] { require_named_folder(root / "no.ctpack"); });
  // CIFAR-10 beside it comes first; two packed files are one too many.
  make_set("cifar-10-batches-bin", 1);
  EXPECT_EQ(locate_data("auto", root).kind->key, "cifar10");
  fs::copy(out(), root / "b.ctpack");
  expect_error(ExitCode::data, {root.string(), "several packed files", "a.ctpack", "b.ctpack", "give one of them"},
               [&] { locate_data("packed", root); });
}

TEST_F(PackTest, TheKindKnowsSizesAndDamage) {
  packed(pictures(5, 0), pictures(3, 5));
  const DataKind& kind = *find_kind("packed");
  const DataSize size = kind.size({.folder = out()}, {.pictures = {.size = 96}});
  EXPECT_EQ(size.spec.sample, (SampleShape{3, 96, 96}));
  EXPECT_EQ(size.spec.classes, 3);
  EXPECT_EQ(size.spec.test_images, 3);
  EXPECT_FALSE(size.spec.direct);
  EXPECT_GT(kind.size({}, {}).spec.test_images, 1000);
  EXPECT_EQ(problem_of(kind, out()), "");
  auto reports = kind.verify(out(), {}, Depth::every_byte);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].problem, "");
  EXPECT_EQ(reports[0].records, 8);
  EXPECT_EQ(reports[0].bytes, fs::file_size(out()));
  const std::string bytes = text(out());
  EXPECT_EQ(reports[0].sha256, sha256_hex(bytes.data(), bytes.size()));

  const uint64_t third = offset_of(Split::train, 3), second = offset_of(Split::test, 1);
  flip(third);
  flip(second);
  EXPECT_EQ(problem_of(kind, out()), "");  // the quick look
  reports = kind.verify(out(), {}, Depth::every_byte);
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].problem, "");
  EXPECT_EQ(reports[1].path, out() / "crab/3.png");
  EXPECT_NE(reports[1].problem.find("checksum"), std::string::npos);
  EXPECT_EQ(reports[2].path, out() / "crab/6.png");

  fs::resize_file(out(), 500);
  EXPECT_NE(problem_of(kind, out()).find("truncated"), std::string::npos);
  EXPECT_NE(kind.verify(out(), {}, Depth::every_byte)[0].problem.find("truncated"), std::string::npos);
  expect_error(ExitCode::data, {out().string(), "truncated", "data convert"}, [&] { open(Split::train); });
}

}  // namespace
}  // namespace ct
