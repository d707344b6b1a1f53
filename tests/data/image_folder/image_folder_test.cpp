#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "data/data_fixture.h"
#include "data/description.h"
#include "data/hold_out.h"
#include "data/image_folder/image_folder_set.h"
#include "data/locate.h"
#include "data/pictures/made_up_pictures.h"
#include "data/pipeline.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

class ImageFolderTest : public DataFixture {
 protected:
  static constexpr PictureTransform kSmall{.size = 8, .resize = 10};

  static void put(const fs::path& path, const FileBytes& file) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  }
  static void put_picture(const fs::path& path, uint64_t seed = 1) {
    put(path, png_file(made_up_picture(20, 16, seed)));
  }

  /// Three classes of `each` pictures in both splits.
  fs::path make_folders(int each) {
    const fs::path folder = root / "pictures";
    uint64_t seed = 0;
    for (const char* split : {"train", "val"})
      for (const char* name : {"ant", "bee", "cow"})
        for (int i = 0; i < each; ++i) put_picture(folder / split / name / str("p", i, ".png"), ++seed);
    return folder;
  }

  static std::vector<std::string> names_of(const ImageFolderSet& set, const fs::path& folder) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < set.count(); ++i) names.push_back(set.path(i).lexically_relative(folder).string());
    return names;
  }

  static std::string sample(const DataSet& set, int64_t i) {
    std::string pixels(set.shape().bytes(), '\0');
    EXPECT_TRUE(set.read(i, {}, reinterpret_cast<uint8_t*>(pixels.data())));
    return pixels;
  }
};

/// What torchvision's ImageFolder lists, in its order, but for hidden names.
TEST_F(ImageFolderTest, FindsPicturesAsImageFolderDoes) {
  const fs::path folder = root / "train";
  for (const char* name : {"b/10.png", "b/9.PNG", "b/a/z.jpg", "b/a-b/k.jpeg", "b/a/deep/x.JPEG", "a/m.webp",
                           "a/n.Tiff", "C/one.bmp", "C/.hidden.pgm", "C/two.ppm", "C/3.tif"})
    put_picture(folder / name);
  for (const char* name : {"C/@eaDir/one.bmp", "a/._m.webp", ".ipynb_checkpoints/one.png", "a/.DS_Store"})
    put_picture(folder / name);
  for (const char* name : {"a/readme.txt", "a/jpg", "a/x.jpg.part", "notes.png"}) put(folder / name, {});
  fs::create_directory_symlink(folder / "b" / "a", folder / "a" / "linked");
  fs::create_symlink(folder / "C" / "two.ppm", folder / "a" / "link.png");
  fs::create_directory_symlink(folder / "C", folder / "d");
  for (const int threads : {1, 3}) {
    const ImageFolderSet set(folder, {.pictures = kSmall, .threads = threads});
    EXPECT_EQ(set.class_names(), (std::vector<std::string>{"C", "a", "b", "d"}));
    EXPECT_EQ(names_of(set, folder),
              (std::vector<std::string>{"C/3.tif", "C/one.bmp", "C/two.ppm", "a/link.png", "a/m.webp", "a/n.Tiff",
                                        "a/linked/z.jpg", "a/linked/deep/x.JPEG", "b/10.png", "b/9.PNG", "b/a/z.jpg",
                                        "b/a-b/k.jpeg", "b/a/deep/x.JPEG", "d/3.tif", "d/one.bmp", "d/two.ppm"}));
    const std::vector<int> labels = {0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3};
    for (size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(set.label(static_cast<int64_t>(i)), labels[i]);
    EXPECT_EQ(set.shape(), (SampleShape{3, 8, 8}));
    EXPECT_FALSE(set.direct());
    ASSERT_EQ(set.notes().size(), 1u);
    const std::string note = set.notes()[0];
    EXPECT_EQ(note.find("left out: 1 picture in no folder of a class, such as '" + (folder / "notes.png").string() +
                        "'; 3 files without the name of a picture (.jpg, .png, ...), such as '" +
                        (folder / "a" / "").string()),
              0u)
        << note;
    EXPECT_NE(note.find("; 7 hidden names, such as '" + (folder / ".ipynb_checkpoints").string() + "'"), note.npos)
        << note;
  }
}

TEST_F(ImageFolderTest, FoldersThatAreNoDataSetAreNamed) {
  const auto refused = [&](const fs::path& folder, const std::vector<std::string>& words) {
    expect_error(ExitCode::data, words, [&] { ImageFolderSet(folder, {}); });
  };
  refused(root / "nowhere", {"nowhere", "no such folder"});
  put_picture(root / "flat" / "a.png");
  refused(root / "flat", {"flat", "no folders"});
  refused(root / "flat" / "a.png", {"a.png", "not a folder"});
  put_picture(root / "one" / "a" / "a.png");
  refused(root / "one", {"one", "only one folder", "'a'"});
  fs::create_directories(root / "one" / "b" / "c");
  refused(root / "one", {"one/b", "no pictures"});
  put_picture(root / "one" / "\xff\xfe" / "a.png");
  refused(root / "one", {"one", "\\xff\\xfe", "UTF-8"});
  fs::rename(root / "one" / "\xff\xfe", root / "one" / "a\tb");
  refused(root / "one", {"one", "a\\x09b", "a control character"});
  put_picture(root / "circle" / "a" / "a.png");
  put_picture(root / "circle" / "b" / "in" / "a.png");
  fs::create_directory_symlink(root / "circle" / "b", root / "circle" / "b" / "in" / "again");
  refused(root / "circle", {"circle/b/in/again", "a link to a folder above it"});
}

TEST_F(ImageFolderTest, FilesThatCannotBePicturesAreNamedOrCounted) {
  const std::map<std::string, std::function<void(const fs::path&)>> cases = {
      {"empty", [](const fs::path& at) { put(at, {}); }},
      {"a link to nothing", [](const fs::path& at) { fs::create_symlink("nothing", at); }},
      {"not a file", [](const fs::path& at) { EXPECT_EQ(mkfifo(at.c_str(), 0600), 0); }},
  };
  const fs::path folder = make_folders(2) / "train", bad = folder / "bee" / "p00.png";
  for (const auto& [problem, make] : cases) {
    make(bad);
    expect_error(ExitCode::data, {"bee/p00.png: " + problem, "data.on_corrupt"}, [&] { ImageFolderSet(folder, {}); });
    const ImageFolderSet set(folder, {.on_corrupt = OnCorrupt::skip});
    EXPECT_EQ(set.count(), 7);
    EXPECT_EQ(set.path(3), bad);
    EXPECT_EQ(set.problem(3), problem);
    std::vector<uint8_t> pixels(set.shape().bytes());
    EXPECT_FALSE(set.read(3, {}, pixels.data()));
    fs::remove(bad);
  }
}

TEST_F(ImageFolderTest, AFingerprintIsOfNamesAndSizes) {
  const fs::path folder = make_folders(2) / "train";
  const auto fingerprint = [&] { return ImageFolderSet(folder, {}).fingerprint(); };
  const uint32_t before = fingerprint();
  EXPECT_EQ(fingerprint(), before);
  fs::rename(folder / "bee" / "p1.png", folder / "bee" / "p2.png");
  EXPECT_NE(fingerprint(), before);
  fs::rename(folder / "bee" / "p2.png", folder / "bee" / "p1.png");
  EXPECT_EQ(fingerprint(), before);
  fs::resize_file(folder / "bee" / "p1.png", 100);
  EXPECT_NE(fingerprint(), before);
}

TEST_F(ImageFolderTest, PicturesThatChangeOrVanishAreNamed) {
  const fs::path folder = make_folders(2) / "train", at = folder / "bee" / "p0.png";
  const ImageFolderSet set(folder, {.pictures = kSmall}),
      tolerant(folder, {.pictures = kSmall, .on_corrupt = OnCorrupt::skip});
  constexpr const char* kRestore = "restore the original file";
  const auto expect_problem = [&](const std::string& problem, const std::string& remedy) {
    std::vector<uint8_t> pixels(set.shape().bytes());
    expect_error(ExitCode::data, {"bee/p0.png: " + problem, remedy}, [&] { set.read(2, {}, pixels.data()); });
    EXPECT_FALSE(tolerant.read(2, {}, pixels.data()));
    EXPECT_EQ(set.problem(2).find(problem), 0u) << set.problem(2);
  };
  const std::string before = sample(set, 2);
  const auto size = fs::file_size(at);
  fs::resize_file(at, size - 1);
  expect_problem("changed during the run", kRestore);
  fs::resize_file(at, size);
  expect_problem("a PNG file that cannot be decoded", "data.on_corrupt");
  fs::remove(at);
  expect_problem("no longer exists", kRestore);
  fs::create_directory(at);
  expect_problem("changed during the run", kRestore);
  fs::remove(at);
  put(at, FileBytes(size, std::byte{'x'}));
  expect_problem("not a JPEG, PNG, WebP or PPM", "data.on_corrupt");
  put_picture(at, 3);
  EXPECT_EQ(sample(set, 2), before);
  EXPECT_EQ(set.problem(2), "");
}

TEST_F(ImageFolderTest, AMislabelledPictureIsTakenForWhatItHolds) {
  const fs::path folder = make_folders(1) / "train";
  put(folder / "ant" / "p0.png", jpeg_file(made_up_picture(30, 20)));
  EXPECT_EQ(ImageFolderSet(folder, {}).problem(0), "");
}

/// A damaged picture's place is taken by another, with its label, the same for any number of workers.
TEST_F(ImageFolderTest, InTrainingAnotherPictureTakesADamagedOnesPlace) {
  const fs::path folder = make_folders(4) / "train";
  for (const char* name : {"ant/p1.png", "cow/p0.png"}) fs::resize_file(folder / name, 60);
  const ImageFolderSet set(folder, {.pictures = kSmall, .on_corrupt = OnCorrupt::skip});
  std::map<std::string, int> label_of;  // by pixels
  for (int64_t i = 0; i < set.count(); ++i)
    if (i != 1 && i != 8) label_of[sample(set, i)] = set.label(i);
  ASSERT_EQ(label_of.size(), 10u);
  const Parts parts = divide(set, {.seed = 1, .validation = {.amount = 3}});
  const size_t bytes = set.shape().bytes();
  std::vector<std::string> first;
  std::vector<std::pair<std::string, int>> held_out;
  for (const uint32_t i : parts.validation)
    if (i != 1 && i != 8) held_out.emplace_back(sample(set, i), set.label(i));
  for (const int workers : {1, 3}) {
    Pipeline pipeline(set, parts.training, {.seed = 4, .train_batch = 9, .micro_batch = 3, .workers = workers});
    std::vector<std::string> all;
    for (int64_t epoch = 0; epoch < 6; ++epoch)
      for (int64_t k = 0; k < 3; ++k) {
        std::vector<uint8_t> images(3 * bytes);
        std::vector<Draw> draws(3);
        std::vector<int32_t> labels(3);
        pipeline.fill(epoch, 0, k, {images, draws, labels});
        for (size_t i = 0; i < 3; ++i) {
          const std::string pixels(images.begin() + static_cast<std::ptrdiff_t>(i * bytes),
                                   images.begin() + static_cast<std::ptrdiff_t>((i + 1) * bytes));
          ASSERT_TRUE(label_of.contains(pixels)) << epoch << " " << k << " " << i;
          EXPECT_EQ(labels[i], label_of[pixels]);
          for (const auto& [other, label] : held_out) EXPECT_NE(pixels, other);
          all.push_back(pixels);
        }
      }
    const auto damaged = std::ranges::count_if(parts.training, [](uint32_t i) { return i == 1 || i == 8; });
    EXPECT_EQ(pipeline.replaced(), 6 * damaged);
    EXPECT_GT(damaged, 0);
    if (workers == 1)
      first = all;
    else
      EXPECT_EQ(all, first);
  }
}

TEST_F(ImageFolderTest, WhereAllAreDamagedTheRunEnds) {
  const fs::path folder = make_folders(2) / "train";
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) fs::resize_file(entry.path(), 50);
  const ImageFolderSet set(folder, {.pictures = kSmall, .on_corrupt = OnCorrupt::skip});
  Pipeline pipeline(set, whole(&set).images, {.train_batch = 2, .micro_batch = 2});
  std::vector<uint8_t> images(2 * set.shape().bytes());
  std::vector<Draw> draws(2);
  std::vector<int32_t> labels(2);
  expect_error(ExitCode::data, {"image_folder", "all damaged", "data verify"}, [&] {
    pipeline.fill(0, 0, 0, {images, draws, labels});
  });
}

TEST_F(ImageFolderTest, EvaluationLeavesDamagedPicturesOut) {
  const fs::path folder = make_folders(2) / "val";
  fs::resize_file(folder / "bee" / "p0.png", 60);
  const ImageFolderSet set(folder, {.pictures = kSmall, .on_corrupt = OnCorrupt::skip});
  const EvalPipeline pipeline(set, 4);
  std::vector<uint8_t> images(4 * set.shape().bytes());
  std::vector<Draw> draws(4);
  std::vector<int32_t> labels(4);
  const Inputs to{images, draws, labels};
  EXPECT_EQ(pipeline.fill(0, to), (std::vector<int32_t>{0, 0, EvalPipeline::kNoLabel, 1}));
  EXPECT_EQ(labels, (std::vector<int32_t>{0, 0, 0, 1}));
  EXPECT_EQ(pipeline.fill(1, to), (std::vector<int32_t>{2, 2}));
}

TEST_F(ImageFolderTest, TheKindIsFoundByItsFoldersOrByNames) {
  const fs::path folder = make_folders(1);
  const LocateOptions memory{.if_absent = IfAbsent::keep_in_memory};
  for (const char* dataset : {"auto", "image_folder"}) {
    const DataSource source = locate_data(dataset, folder, memory);
    EXPECT_EQ(source.kind->key, "image_folder");
    EXPECT_EQ(source.kind->open(source, Split::train, {})->count(), 3);
    EXPECT_EQ(source.kind->open(source, Split::test, {})->classes(), 3);
  }
  // A split alone is a set of its own, without test images.
  const DataSource alone = locate_data("auto", folder / "val", memory);
  EXPECT_TRUE(has_split(alone, Split::train) && !has_split(alone, Split::val) && !has_split(alone, Split::test));
  EXPECT_EQ(alone.kind->open(alone, Split::train, {})->classes(), 3);
  // CIFAR-10 comes first, where it lies there too.
  fs::create_directories(folder / "cifar-10-batches-bin");
  EXPECT_EQ(locate_data("auto", folder, memory).kind->key, "cifar10");
  fs::remove(folder / "cifar-10-batches-bin");
  // Folders by names of their own. Half a folder of pictures is no place for another set.
  fs::rename(folder / "train", root / "learn");
  expect_error(ExitCode::data, {folder.string(), "val/ but no train/", "data.train", "data.dataset: synthetic"},
               [&] { locate_data("auto", folder, memory); });
  EXPECT_EQ(locate_data("synthetic", folder, memory).kind->key, "synthetic");
  fs::rename(folder / "val", root / "check");
  expect_error(ExitCode::data, {folder.string(), "is empty"}, [&] { locate_data("auto", folder, memory); });
  expect_error(ExitCode::data, {"no train/ and val/", "data.train"}, [&] { locate_data("image_folder", folder); });
  for (const char* dataset : {"auto", "image_folder"}) {
    const DataSource source = locate_data(
        dataset, folder, {.train = root / "learn", .val = root / "check", .if_absent = IfAbsent::keep_in_memory});
    EXPECT_EQ(source.kind->open(source, Split::train, {})->count(), 3);
    EXPECT_EQ(source.kind->open(source, Split::test, {})->count(), 3);
    EXPECT_EQ(source.kind->size(source, {}).spec.test_images, 3);
  }
  expect_error(ExitCode::data, {"wrong", "data.train"},
               [&] { locate_data("auto", folder, {.train = root / "wrong"}); });
  expect_error(ExitCode::usage, {"data.train", "CIFAR-10"},
               [&] { locate_data("cifar10", folder, {.train = root / "learn"}); });
}

TEST_F(ImageFolderTest, ThereMayBeNothingOfAClassToTestOn) {
  const fs::path folder = make_folders(1);
  const DataSource source = locate_data("image_folder", folder);
  fs::remove(folder / "val" / "ant" / "p0.png");
  fs::remove_all(folder / "val" / "bee");
  const auto test = source.kind->open(source, Split::test, {});
  EXPECT_EQ(test->class_names(), (std::vector<std::string>{"ant", "bee", "cow"}));
  ASSERT_EQ(test->count(), 1);
  EXPECT_EQ(test->label(0), 2);
  EXPECT_EQ(notes_of(*test, Split::test),
            std::vector<std::string>{"no images of the class 'ant' and 1 more to test on"});
  EXPECT_EQ(problem_of(*source.kind, folder), "");
  // Without train/ the classes are those of the weights.
  fs::rename(folder / "train", root / "elsewhere");
  EXPECT_EQ(source.kind->open(source, Split::test, {.classes = {"ant", "bee", "cow"}})->label(0), 2);
  fs::remove_all(folder / "val" / "cow");
  expect_error(ExitCode::data, {"val", "no pictures"}, [&] {
    source.kind->open(source, Split::test, {.classes = {"ant", "bee", "cow"}});
  });
}

TEST_F(ImageFolderTest, ThereIsNoClassToTestOnAlone) {
  const fs::path folder = make_folders(1);
  const DataSource source = locate_data("image_folder", folder);
  EXPECT_EQ(problem_of(*source.kind, folder), "");
  fs::rename(folder / "val" / "bee", folder / "val" / "wasp");
  expect_error(ExitCode::data, {"val: no folder for the class 'bee'", "train"},
               [&] { source.kind->open(source, Split::test, {}); });
  EXPECT_NE(problem_of(*source.kind, folder).find("'bee'"), std::string::npos);
  fs::create_directory_symlink("wasp", folder / "val" / "bee");
  expect_error(ExitCode::data, {"train: no folder for the class 'wasp'", "val"},
               [&] { source.kind->open(source, Split::test, {}); });
  // Evaluation elsewhere has no train/ to compare with.
  fs::remove_all(folder / "train");
  const DataSource alone = locate_data("image_folder", folder, {.evaluated = Split::test});
  EXPECT_EQ(alone.kind->open(alone, Split::test, {})->classes(), 4);
}

TEST_F(ImageFolderTest, VerifyListsEveryBadPicture) {
  const fs::path folder = make_folders(2);
  const DataKind& kind = *find_kind("image_folder");
  EXPECT_EQ(kind.verify(folder, {}, Depth::every_byte).size(), 2u);
  fs::create_directory(folder / "val" / "dog");
  put(folder / "val" / "dog" / "p0.png", FileBytes(30, std::byte{'x'}));
  EXPECT_NE(kind.verify(folder, {}, Depth::every_byte).back().problem.find("no folder for the class 'dog'"),
            std::string::npos);
  fs::remove_all(folder / "val" / "dog");
  fs::resize_file(folder / "train" / "ant" / "p1.png", 70);
  put(folder / "val" / "bee" / "p0.png", {});
  put(folder / "val" / "cow" / "p1.png", FileBytes(30, std::byte{'x'}));
  const std::vector<FileReport> reports = kind.verify(folder, {}, Depth::every_byte);
  ASSERT_EQ(reports.size(), 5u);
  EXPECT_EQ(reports[0].records, 6);
  EXPECT_EQ(reports[0].problem, "");
  EXPECT_EQ(reports[1].path, folder / "train" / "ant" / "p1.png");
  EXPECT_NE(reports[1].problem, "");
  EXPECT_EQ(reports[3].path, folder / "val" / "bee" / "p0.png");
  EXPECT_EQ(reports[3].problem, "empty");
  EXPECT_EQ(reports[4].path, folder / "val" / "cow" / "p1.png");
  EXPECT_EQ(reports[4].problem, "not a JPEG, PNG, WebP or PPM file");
  fs::remove_all(folder / "val");
  fs::create_directory(folder / "val");
  EXPECT_EQ(kind.verify(folder, {}, Depth::every_byte).back().problem.find("no folders; put"), 0u)
      << kind.verify(folder, {}, Depth::every_byte).back().problem;
}

}  // namespace
}  // namespace ct
