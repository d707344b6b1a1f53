#include "data/locate.h"

#include "data/cifar/cifar_set.h"
#include "data/data_fixture.h"
#include "data/deferred_data_set.h"
#include "data/synthetic/synthetic.h"

namespace ct {
namespace {

namespace fs = std::filesystem;
using LocateTest = DataFixture;

TEST_F(LocateTest, FindsCifarInItsFolder) {
  const fs::path folder = make_set("cifar-10-batches-bin", 1);
  for (const char* dataset : {"auto", "cifar10"}) {
    for (const fs::path& path : {root, folder, fs::path(folder.string() + "/")}) {
      const DataSource source = locate_data(dataset, path);
      EXPECT_EQ(source.kind->name, "CIFAR-10");
      EXPECT_EQ(source.folder, folder);
      EXPECT_NE(source.note.find(folder.string()), std::string::npos);
    }
  }
  EXPECT_EQ(locate_data("auto", make_set("renamed", 1)).folder, root / "renamed");
}

/// The working folder, for data.path's default.
class InFolder {
 public:
  explicit InFolder(const fs::path& folder) { fs::current_path(folder); }
  ~InFolder() { fs::current_path(before_); }

 private:
  const fs::path before_ = fs::current_path();
};

TEST_F(LocateTest, AutoFallsBackToTheSyntheticSetAndSaysHowToGetTheRealOne) {
  const fs::path folder = root / "data" / "synthetic-10-batches-bin";
  const InFolder here(root);
  const DataSource source = locate_data("auto", root / "data");
  EXPECT_EQ(source.kind->name, "synthetic-10");
  EXPECT_EQ(source.folder, folder);
  for (const char* word : {"synthetic-10", "cifar-10-binary.tar.gz", "https://www.cs.toronto.edu/~kriz/", "unpack"}) {
    EXPECT_NE(source.note.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(source.kind->open(source, Split::test, {})->count(), 10000);
  EXPECT_EQ(locate_data("auto", root / "data").folder, folder);
  EXPECT_EQ(locate_data("auto", folder).folder, folder);

  const std::string note = locate_data("synthetic", root / "data").note;
  EXPECT_EQ(note.find("CIFAR"), std::string::npos) << note;
  expect_error(ExitCode::data, {"contains the synthetic set"}, [&] { locate_data("cifar10", folder); });

  // Whatever the folder is called, it is not taken for CIFAR-10.
  fs::rename(folder, root / "data" / "cifar-10-batches-bin");
  expect_error(ExitCode::data, {"contains the synthetic set"}, [&] { locate_data("cifar10", root / "data"); });
  EXPECT_EQ(locate_data("auto", root / "data" / "cifar-10-batches-bin").kind->name, "synthetic-10");
}

TEST_F(LocateTest, ASetThatIsWrittenLaterIsKnownBefore) {
  const DataSource later = locate_data("synthetic", root / "data", {.if_absent = IfAbsent::write_later});
  EXPECT_TRUE(later.to_write);
  EXPECT_FALSE(fs::exists(root / "data"));
  std::unique_ptr<DataSet> sets[] = {later.kind->open(later, Split::train, {}),
                                     later.kind->open(later, Split::test, {})};
  const DataSource written = locate_data("synthetic", root / "data");
  EXPECT_EQ(written.folder, later.folder);
  EXPECT_FALSE(locate_data("auto", root / "data", {.if_absent = IfAbsent::write_later}).to_write);
  for (const Split split : {Split::train, Split::test}) {
    auto& late = dynamic_cast<DeferredDataSet&>(*sets[split == Split::train ? 0 : 1]);
    auto images = written.kind->open(written, split, {});
    EXPECT_EQ(late.name(), images->name());
    EXPECT_EQ(late.class_names(), images->class_names());
    EXPECT_EQ(late.shape(), images->shape());
    EXPECT_EQ(late.direct(), images->direct());
    ASSERT_EQ(late.count(), images->count());
    for (int64_t i = 0; i < late.count(); ++i) ASSERT_EQ(late.label(i), images->label(i)) << i;
    EXPECT_EQ(late.fingerprint(), images->fingerprint());
    std::vector<uint8_t> expected(late.shape().bytes()), read(expected.size());
    images->read(77, {}, expected.data());
    late.check_unchanged();  // before there is anything that could change
    late.set_images(std::move(images));
    EXPECT_TRUE(late.read(77, {}, read.data()));
    EXPECT_EQ(read, expected);
  }
  // What lies there by then is another set.
  const fs::path small = root / "small" / "synthetic-10-batches-bin";
  const DataSource other = locate_data("synthetic", root / "small", {.if_absent = IfAbsent::write_later});
  auto waiting = other.kind->open(other, Split::test, {});
  write_synthetic(small, {}, 10);
  const DataSource found = locate_data("synthetic", root / "small");
  expect_error(ExitCode::data, {"synthetic-10", "another set"},
               [&] { dynamic_cast<DeferredDataSet&>(*waiting).set_images(found.kind->open(found, Split::test, {})); });
}

TEST_F(LocateTest, KeepsTheSyntheticSetInMemoryWhereItCannotBeWritten) {
  const fs::path blocked = "/proc/self/cannot-be-made";  // for root either
  const DataSource source = locate_data("synthetic", blocked);
  EXPECT_EQ(source.kind->name, "synthetic-10");
  EXPECT_TRUE(source.folder.empty());
  EXPECT_NE(source.note.find("in memory"), std::string::npos);
  const auto opened = source.kind->open(source, Split::test, {});
  const auto& test = dynamic_cast<const CifarSet&>(*opened);
  EXPECT_EQ(test.count(), 10000);
  std::vector<uint8_t> record(kRecordBytes);
  synthetic_record(kSyntheticSeed, 50123, record.data());
  EXPECT_EQ(test.label(123), record[0]);
  EXPECT_TRUE(std::equal(record.begin() + 1, record.end(), test.pixels(123)));
}

TEST_F(LocateTest, ANamedFolderMustBeThere) {
  require_named_folder(root);
  write(root / "file", {1});
  require_named_folder(root / "file");  // what it is, is another question
  expect_error(ExitCode::data, {"tpyo", "no such folder", "synth"}, [&] { require_named_folder(root / "tpyo"); });
  expect_error(ExitCode::data, {"data", "no such folder"}, [&] { require_named_folder(root / "data"); });
  const InFolder here(root);
  for (const char* shipped : {"data", "data/", "./data"}) EXPECT_NO_THROW(require_named_folder(shipped)) << shipped;
  EXPECT_NO_THROW(require_named_folder(fs::absolute("data")));
  EXPECT_THROW(require_named_folder("data/sub"), Error);
}

TEST_F(LocateTest, NothingIsWrittenIntoFoldersWithOtherFiles) {
  const InFolder here(root);
  fs::create_directories(root / "data");
  write(root / "data" / "README.md", {1});
  write(root / "data" / ".DS_Store", {1});
  const LocateOptions later{.if_absent = IfAbsent::write_later};
  EXPECT_TRUE(locate_data("auto", "data", later).to_write);
  fs::create_directories(root / "named");
  expect_error(ExitCode::data, {"named", "is empty", "cifar-10-batches-bin/", "*.ctpack", "synthetic"},
               [&] { locate_data("auto", root / "named", later); });
  EXPECT_TRUE(locate_data("synthetic", root / "named", later).to_write);
  for (const fs::path& folder : {root / "data", root / "named"}) {
    write(folder / "notes.txt", {1});
    expect_error(ExitCode::data, {folder.filename().string(), "holds no data set", "synthetic"},
                 [&] { locate_data("auto", folder, later); });
    const DataSource source = locate_data("synthetic", folder);
    EXPECT_TRUE(source.folder.empty());
    EXPECT_NE(source.note.find("in memory"), std::string::npos) << source.note;
    EXPECT_FALSE(fs::exists(folder / "synthetic-10-batches-bin"));
  }
}

TEST_F(LocateTest, AKindNeedsOnlyAFolder) {
  const DataKind kinds[] = {{.key = "letters",
                             .name = "Letters",
                             .folder = "letters",
                             .how_to_get = [](const fs::path& path) { return "write them in " + path.string(); },
                             .find = [](const fs::path& path) -> std::optional<fs::path> {
                               if (!fs::exists(path / "letters")) return std::nullopt;
                               return path / "letters";
                             }},
                            data_kinds().back()};
  expect_error(ExitCode::data, {root.string(), "no letters", "write them in"},
               [&] { locate_data("letters", root, {}, kinds); });
  expect_error(ExitCode::data, {root.string(), "is empty"}, [&] { locate_data("auto", root, {}, kinds); });
  fs::create_directory(root / "letters");
  for (const char* dataset : {"auto", "letters"}) {
    const DataSource source = locate_data(dataset, root, {}, kinds);
    EXPECT_EQ(source.kind, &kinds[0]);
    EXPECT_EQ(source.folder, root / "letters");
  }
}

TEST_F(LocateTest, Errors) {
  expect_error(ExitCode::usage, {"data.dataset", "'letters'", "cifar10"}, [&] { locate_data("letters", root); });
  expect_error(ExitCode::data, {"cifar-10-batches-bin", "no such folder", "kriz", root.string() + "/", "auto"},
               [&] { locate_data("cifar10", root); });
  expect_error(ExitCode::data, {"no such folder", "kriz"}, [&] { locate_data("auto", root / "cifar-10-batches-bin"); });
  write(root / "file", {1});
  expect_error(ExitCode::data, {"file", "not a folder", "data.path"}, [&] { locate_data("auto", root / "file"); });
  // A folder that is there but damaged is never passed over.
  fs::create_directory(root / "cifar-10-batches-bin");
  const DataSource source = locate_data("auto", root);
  expect_error(ExitCode::data, {"data_batch_1.bin", "no such file"},
               [&] { source.kind->open(source, Split::train, {}); });
}

}  // namespace
}  // namespace ct
