#include "checkpoint/store.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/paths.h"
#include "base/temporary_folder.h"
#include "checkpoint/saving.h"
#include "comm/host/threads.h"

namespace ct {
namespace {

using Json = nlohmann::json;

class StoreTest : public testing::Test {
 protected:
  static void save(Store& store, int64_t step, uint32_t seed) { save_samples(*make_solo(), store, step, seed); }
  static std::vector<std::string>& ignored() {
    static thread_local std::vector<std::string> lines;
    return lines;
  }
  static void ignore(const std::string& line) { ignored().push_back(line); }

  void forge(int64_t step, const std::function<void(Json&)>& change) { forge_manifest(store_.path_of(step), change); }

  TemporaryFolder folder_;
  QuickFileSystem files_;
  Path path_ = folder_ / "ckpt";
  Store store_{files_, path_, {"run-1", "cnn"}};
};

TEST_F(StoreTest, Names) {
  EXPECT_EQ(step_name(120), "step-00000120");
  EXPECT_EQ(step_of("step-00000120"), 120);
  EXPECT_EQ(step_of("step-123456789"), 123456789);
  for (const char* bad : {"", "step-", "step-120", "step-000000120", "step-0000012x", "step--0000120", "Step-00000120",
                          "step-00000120 ", "step-99999999999999999999", ".old-step-00000120"}) {
    EXPECT_FALSE(step_of(bad)) << bad;
  }
  EXPECT_TRUE(is_part_name("optim-00-of-01.safetensors"));
  EXPECT_TRUE(is_part_name("optim-100-of-128.safetensors"));
  for (const char* bad : {"", ".", "..", "optim-01-of-01.safetensors", "optim-0-of-1.safetensors", "a/state.json",
                          "optim-00-of-01.safetensors.x", "optim- 0-of-01.safetensors", "optim-00-of-00.safetensors"}) {
    EXPECT_FALSE(is_part_name(bad)) << bad;
  }
}

TEST_F(StoreTest, RoundTrip) {
  EXPECT_TRUE(store_.list().empty());
  EXPECT_FALSE(store_.newest_good(ignore));
  save(store_, 0, 1);
  save(store_, 120, 2);
  EXPECT_EQ(store_.list(), (std::vector<int64_t>{0, 120}));
  EXPECT_EQ(store_.newest_good(ignore), 120);
  EXPECT_TRUE(holds(store_.load(0), 1));
  const Checkpoint c = store_.load(120);
  EXPECT_TRUE(holds(c, 2));
  EXPECT_EQ(c.manifest.identity.run, "run-1");
  EXPECT_EQ(c.weights.metadata().at("model"), "{}");
  EXPECT_EQ(
      list_folder(path_ / "step-00000120"),
      (std::vector<std::string>{"manifest.json", "optim-00-of-01.safetensors", "state.json", "weights.safetensors"}));
  save(store_, 120, 3);
  EXPECT_TRUE(holds(store_.load(120), 3));
  EXPECT_EQ(list_folder(path_), (std::vector<std::string>{"step-00000000", "step-00000120"}));
  EXPECT_TRUE(holds(c, 2)) << "what was loaded stays readable";
}

TEST_F(StoreTest, DamageIsNamedAndAnOlderCheckpointTaken) {
  for (const std::string name : {"weights.safetensors", "optim-00-of-01.safetensors", "state.json", "manifest.json"}) {
    save(store_, 1, 1);
    save(store_, 2, 2);
    const Path path = path_ / "step-00000002" / name;
    const std::string text = read_file(path);
    std::mt19937 random(5);
    for (int n = 0; n < 400; ++n) {
      std::string bad = text;
      const size_t i = random() % bad.size();
      if (n % 4) {
        bad[i] = static_cast<char>(bad[i] ^ 1 << random() % 8);
      } else {
        bad.resize(i);
      }
      std::filesystem::remove(path);
      spill(path, bad);
      ignored().clear();
      ASSERT_EQ(store_.newest_good(ignore), 1) << name << " byte " << i;
      ASSERT_NE(ignored().at(0).find(name), std::string::npos) << ignored()[0];
      ASSERT_NE(error_of(ExitCode::checkpoint, [&] { store_.load(2); }), "");
    }
    std::filesystem::remove(path);
    EXPECT_NE(std::string(store_.verify(2).at(0).what()).find("missing"), std::string::npos);
    spill(folder_ / "elsewhere", text);
    std::filesystem::create_symlink(folder_ / "elsewhere", path);
    EXPECT_EQ(store_.newest_good(ignore), 1) << "links are refused";
    std::filesystem::remove_all(path_ / "step-00000001");
    EXPECT_NE(error_of(ExitCode::checkpoint, [&] { store_.newest_good(ignore); }).find("--reset"), std::string::npos);
    save(store_, 2, 2);  // replaces the damaged one
    EXPECT_EQ(store_.newest_good(ignore), 2);
  }
}

TEST_F(StoreTest, DamagedTensorIsNamed) {
  save(store_, 1, 1);
  const Path path = path_ / "step-00000001" / "weights.safetensors";
  std::string text = read_file(path);
  text.back() = static_cast<char>(text.back() ^ 1);  // the last name is "ints"
  std::filesystem::remove(path);
  spill(path, text);
  EXPECT_NE(std::string(store_.verify(1).at(0).what()).find("'ints'"), std::string::npos);
}

TEST_F(StoreTest, HostileManifests) {
  const std::function<void(Json&)> changes[] = {
      [](Json& m) { m.erase("version"); },
      [](Json& m) { m["version"] = "1"; },
      [](Json& m) { m["version"] = -1; },
      [](Json& m) { m["step"] = 2; },
      [](Json& m) { m["step"] = 1.5; },
      [](Json& m) { m["step"] = ~uint64_t{0}; },
      [](Json& m) { m.erase("run"); },
      [](Json& m) { m["model"] = 1; },
      [](Json& m) { m.erase("files"); },
      [](Json& m) { m["files"] = "weights.safetensors"; },
      [](Json& m) { m["files"] = Json::array(); },
      [](Json& m) { m["files"].erase(0); },
      [](Json& m) { m["files"].push_back(m["files"][0]); },
      [](Json& m) { m["files"].push_back(1); },
      [](Json& m) { m["files"].push_back(Json::array()); },
      [](Json& m) { m["files"][0].erase("name"); },
      [](Json& m) { m["files"][0]["name"] = 7; },
      [](Json& m) { m["files"][0]["name"] = "../step-00000001/weights.safetensors"; },
      [](Json& m) { m["files"][0]["name"] = "/etc/passwd"; },
      [](Json& m) { m["files"][0]["name"] = "sub/weights.safetensors"; },
      [](Json& m) { m["files"][0]["name"] = ".."; },
      [](Json& m) { m["files"][0]["name"] = ""; },
      [](Json& m) { m["files"][0]["name"] = std::string("weights.safetensors\0x", 21); },
      [](Json& m) { m["files"][0]["name"] = "manifest.json"; },
      [](Json& m) { m["files"][0]["name"] = std::string(100000, 'x') + "\n"; },
      [](Json& m) { m["files"][0]["name"] = "optim-00-of-02.safetensors"; },
      [](Json& m) { m["files"][0]["name"] = "optim-00-of-999999999999.safetensors"; },
      [](Json& m) { m["files"][0]["bytes"] = ~uint64_t{0}; },
      [](Json& m) { m["files"][0]["bytes"] = -1; },
      [](Json& m) { m["files"][0]["bytes"] = 1e300; },
      [](Json& m) { m["files"][0]["crc32c"] = 5; },
      [](Json& m) { m["files"][0]["crc32c"] = "zzzzzzzz"; },
      [](Json& m) { m["files"][0]["crc32c"] = "00000000"; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    save(store_, 1, 1);
    forge(1, [](Json&) {});
    ASSERT_TRUE(store_.verify(1).empty()) << "forging itself is fine";
    forge(1, changes[i]);
    EXPECT_NE(error_of(ExitCode::checkpoint, [&] { store_.load(1); }), "") << i;
    EXPECT_FALSE(store_.verify(1).empty()) << i;
  }
  for (const std::string text : {"", "{}", "[]", "{\"manifest_crc32c\":\"", "garbage", "\0\0\0\0"}) {
    std::filesystem::remove(path_ / "step-00000001" / "manifest.json");
    spill(path_ / "step-00000001" / "manifest.json", text);
    EXPECT_FALSE(store_.verify(1).empty());
  }
}

TEST_F(StoreTest, NewerFormatAndAnotherModelSayWhatToDo) {
  save(store_, 1, 1);
  const Store other(files_, path_, {"run-1", "resnet18"});
  const std::string model = error_of(ExitCode::checkpoint, [&] { other.load(1); });
  EXPECT_NE(model.find("'cnn'"), std::string::npos);
  EXPECT_NE(model.find("'resnet18'"), std::string::npos);
  EXPECT_TRUE(other.verify(1).empty());
  forge(1, [](Json& m) { m["version"] = 2; });
  EXPECT_NE(error_of(ExitCode::checkpoint, [&] { store_.load(1); }).find("newer"), std::string::npos);
}

TEST_F(StoreTest, GarbageFolders) {
  save(store_, 5, 5);
  for (const char* name : {"step-", "step-5", "notes", ".tmp-", "step-00000005.bak"})
    make_folders(files_, path_ / name);
  spill(path_ / "step-00000006", "a file, not a folder");
  make_folders(files_, path_ / "step-00000007");
  make_folders(files_, path_ / "step-00000008" / "manifest.json");
  std::filesystem::create_symlink("/nonexistent", path_ / "step-00000009");
  EXPECT_EQ(store_.list(), (std::vector<int64_t>{5, 6, 7, 8, 9}));
  ignored().clear();
  EXPECT_EQ(store_.newest_good(ignore), 5);
  EXPECT_EQ(ignored().size(), 4u);
}

TEST_F(StoreTest, RecoverRemovesOnlyItsOwn) {
  save(store_, 5, 5);
  save(store_, 6, 6);
  std::filesystem::rename(path_ / "step-00000006", path_ / ".old-step-00000006");  // killed between two renames
  EXPECT_EQ(store_.newest_good(ignore), 6) << "a reader needs no recovery";
  EXPECT_TRUE(holds(store_.load(6), 6));
  store_.begin(7);
  store_.create_weights(7).write("piece");
  spill(path_ / ".tmp-step-00000007" / ".tmp-state.json", "piece");
  make_folders(files_, path_ / ".tmp-precious");
  make_folders(files_, path_ / ".trash-step-00000001");
  spill(path_ / ".trash-step-00000001" / "thesis.txt", "precious");
  store_.recover(ignore);
  EXPECT_EQ(list_folder(path_),
            (std::vector<std::string>{".tmp-precious", ".trash-step-00000001", "step-00000005", "step-00000006"}));
  EXPECT_TRUE(holds(store_.load(6), 6));
}

TEST_F(StoreTest, WhatRecoverCannotRemoveStopsNoRun) {
  save(store_, 6, 6);
  for (const char* name : {".old-step-00000006", ".trash-step-00000005"}) spill(path_ / name, "not a folder");
  std::vector<std::string> lines;
  store_.recover([&](const std::string& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find(".old-step-00000006"), std::string::npos) << lines[0];
  EXPECT_TRUE(holds(store_.load(6), 6));
}

/// A checkpoint that was moved elsewhere, with a link in its place, is read there, and is never deleted there.
TEST_F(StoreTest, LinksInThePlaceOfFoldersAreRemovedNotFollowed) {
  const Path elsewhere = path_.parent_path() / "elsewhere";
  std::filesystem::create_directories(elsewhere);
  for (const int64_t step : {5, 6, 7}) save(store_, step, static_cast<uint32_t>(step));
  const auto move = [&](const std::string& name, const std::string& link) {
    std::filesystem::rename(path_ / name, elsewhere / name);
    std::filesystem::create_directory_symlink(elsewhere / name, path_ / link);
  };
  move("step-00000005", "step-00000005");
  move("step-00000006", ".trash-step-00000006");
  EXPECT_TRUE(holds(store_.load(5), 5));
  store_.recover(ignore);
  EXPECT_EQ(store_.prune(1), std::vector<int64_t>{5});
  EXPECT_EQ(list_folder(path_), std::vector<std::string>{"step-00000007"});
  Store there(files_, elsewhere, {});
  EXPECT_TRUE(there.verify(5).empty() && there.verify(6).empty());
}

TEST_F(StoreTest, ALinkThatLeadsNowhereIsReplaced) {
  make_folders(files_, path_);
  std::filesystem::create_directory_symlink("nowhere", path_ / "step-00000005");
  EXPECT_FALSE(store_.verify(5).empty());
  save(store_, 5, 5);
  EXPECT_TRUE(holds(store_.load(5), 5));
  EXPECT_EQ(list_folder(path_), std::vector<std::string>{"step-00000005"});
}

TEST_F(StoreTest, AStateThatNoRunHasIsPassedOver) {
  for (const int64_t step : {5, 6}) save(store_, step, static_cast<uint32_t>(step));
  const Store strict(files_, path_, {}, [](const Checkpoint& checkpoint) {
    if (checkpoint.manifest.step == 6) refuse_part(checkpoint.state_path(), "no run has it");
  });
  EXPECT_EQ(strict.newest_good(ignore), 5);
  EXPECT_EQ(strict.verify(6).size(), 1u);
  EXPECT_EQ(store_.newest_good(ignore), 6);
}

TEST_F(StoreTest, AFaultThatPassesIsNoReasonToFallBack) {
  for (const int64_t step : {5, 6}) save(store_, step, static_cast<uint32_t>(step));
  int faults = 1;
  const Store flaky(files_, path_, {}, [&](const Checkpoint& checkpoint) {
    if (checkpoint.manifest.step == 6 && faults-- > 0) fail_io("read", checkpoint.state_path(), ESTALE);
  });
  const auto none = [](const std::string& line) { ADD_FAILURE() << line; };
  EXPECT_EQ(flaky.newest_good(none), 6);
  faults = 2;
  EXPECT_EQ(flaky.newest_good(ignore), 5);
}

TEST_F(StoreTest, CheckpointsThatCannotBeReadAreNotCalledInvalid) {
  for (const int64_t step : {5, 6}) save(store_, step, static_cast<uint32_t>(step));
  const Store unread(files_, path_, {},
                     [](const Checkpoint& checkpoint) { fail_io("read", checkpoint.state_path(), EIO); });
  const std::string message = error_of(ExitCode::io, [&] { unread.newest_good(ignore); });
  EXPECT_NE(message.find("is valid and can be read"), std::string::npos) << message;
}

TEST_F(StoreTest, FilesOfOthersBecomeNoPartOfACheckpoint) {
  const Path mine = path_ / ".tmp-step-00000005" / "mine";
  make_folders(files_, mine.parent_path());
  spill(mine, "notes");
  spill(mine.parent_path() / kWeightsFile, "of a killed save");
  std::vector<std::string> told;
  store_.recover([&](const std::string& line) { told.push_back(line); });
  ASSERT_EQ(told.size(), 1u);
  for (const std::string& line : {told[0], error_of(ExitCode::io, [&] { save(store_, 5, 5); })})
    EXPECT_NE(line.find(".tmp-step-00000005/mine' was written by no save: move it away"), line.npos) << line;
  EXPECT_EQ(list_folder(mine.parent_path()), std::vector<std::string>{"mine"});
  EXPECT_TRUE(store_.list().empty());
  std::filesystem::remove(mine);
  save(store_, 5, 5);
  EXPECT_TRUE(holds(store_.load(5), 5));
}

/// A client of NFS gives these names to files that are removed while somebody reads them, and removes them itself.
TEST_F(StoreTest, SillyRenamedFilesAreLeftAlone) {
  save(store_, 5, 5);
  save(store_, 6, 6);
  const std::vector<Path> folders = {path_, path_ / "step-00000005", path_ / ".tmp-step-00000007",
                                     path_ / ".trash-step-00000004"};
  for (const Path& folder : folders) {
    make_folders(files_, folder);
    spill(folder / ".nfs000000000123abcd00000001", "open");
  }
  spill(path_ / ".trash-step-00000004" / "state.json", "to be removed");
  store_.recover(ignore);
  EXPECT_EQ(list_folder(folders[3]), std::vector<std::string>{".nfs000000000123abcd00000001"});
  EXPECT_EQ(store_.newest_good(ignore), 6);
  save(store_, 7, 7);
  EXPECT_TRUE(holds(store_.load(7), 7));
  EXPECT_EQ(store_.prune(1), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(store_.list(), std::vector<int64_t>{7});
  for (const Path& folder : {path_, path_ / ".trash-step-00000005", path_ / "step-00000007", folders[3]})
    EXPECT_TRUE(is_there(folder / ".nfs000000000123abcd00000001")) << folder;
}

TEST_F(StoreTest, WhatARemovalHasLeftIsInNoWay) {
  for (int64_t step : {5, 6, 7}) save(store_, step, 5);
  const Path left = path_ / ".trash-step-00000005";
  make_folders(files_, left);
  spill(left / "mine", "notes");
  EXPECT_EQ(store_.prune(1), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(store_.list(), std::vector<int64_t>{7});
  EXPECT_EQ(list_folder(path_), (std::vector<std::string>{".trash-step-00000005", "step-00000007"}));
  EXPECT_EQ(list_folder(left), std::vector<std::string>{"mine"});
}

TEST_F(StoreTest, PruneKeepsThoseWithFilesOfOthers) {
  for (int64_t step : {5, 6, 7, 8}) save(store_, step, 5);
  spill(path_ / step_name(5) / "notes", "mine");
  std::filesystem::remove(path_ / step_name(6) / kManifestFile);
  make_folders(files_, path_ / step_name(6) / kManifestFile);
  std::vector<std::string> told;
  EXPECT_EQ(store_.beyond(1, 8, [&](const std::string& line) { told.push_back(line); }), std::vector<int64_t>{7});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[0].find("checkpoint 5 stays: "), told[0].npos) << told[0];
  EXPECT_NE(told[1].find("step-00000006/manifest.json' was written by no save"), told[1].npos) << told[1];
  EXPECT_EQ(store_.prune(1), std::vector<int64_t>{7});
  EXPECT_EQ(store_.list(), (std::vector<int64_t>{5, 6, 8}));
}

TEST_F(StoreTest, PruneKeepsTheNewestGoodOne) {
  for (int64_t step = 1; step <= 5; ++step) save(store_, step, static_cast<uint32_t>(step));
  make_folders(files_, path_ / ".trash-step-00000000");  // of a removal that failed
  spill(path_ / ".trash-step-00000000" / "state.json", "piece");
  EXPECT_EQ(store_.prune(5), std::vector<int64_t>{});
  EXPECT_EQ(store_.prune(3), (std::vector<int64_t>{1, 2}));
  for (int64_t step : {4, 5}) std::filesystem::remove(path_ / step_name(step) / "state.json");
  EXPECT_EQ(store_.prune(1), (std::vector<int64_t>{4}));
  EXPECT_EQ(store_.list(), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(store_.prune(0), (std::vector<int64_t>{5}));
  EXPECT_TRUE(holds(store_.load(3), 3));
  EXPECT_EQ(list_folder(path_), std::vector<std::string>{"step-00000003"});
}

TEST_F(StoreTest, PruneKeepsTheNewestFiniteOne) {
  for (int64_t step = 1; step <= 6; ++step)
    save_samples(*make_solo(), store_, step, 1, step > 3 ? spoil : std::function<void(SaveContents&)>());
  EXPECT_EQ(store_.newest_finite(), 3);
  EXPECT_EQ(store_.prune(1, 6), (std::vector<int64_t>{1, 2, 4, 5}));
  std::filesystem::remove(path_ / step_name(3) / "state.json");
  EXPECT_EQ(store_.newest_finite(), std::nullopt) << "it must be good too";
  save(store_, 7, 1);
  EXPECT_EQ(store_.prune(1, 7), (std::vector<int64_t>{3, 6}));
}

TEST_F(StoreTest, AManifestSaysWhatIsNotFinite) {
  for (const auto& forgery :
       std::vector<std::function<void(Json&)>>{[](Json& manifest) { manifest["not_finite"] = {1}; },
                                               [](Json& manifest) { manifest.erase("not_finite"); }}) {
    save(store_, 1, 1);
    forge(1, forgery);
    EXPECT_FALSE(store_.verify(1).empty());
    std::filesystem::remove_all(path_);
  }
}

/// Also in a folder that a run made which was killed before it had synced it.
TEST_F(StoreTest, WhatIsCommittedSurvivesAPowerFailure) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    TemporaryFolder folder, backups;
    FaultyFileSystem files(Fault::power_loss, 1000, backups.path(), seed);
    ASSERT_EQ(files.mkdir(folder / "ckpt"), 0);
    Store store(files, folder / "ckpt", {"run", "cnn"});
    save(store, 1, 1);
    files.lose_power();
    const Store after(files_, folder / "ckpt", {"run", "cnn"});
    ASSERT_EQ(after.newest_good(ignore), 1) << seed;
    EXPECT_TRUE(holds(after.load(1), 1));
  }
}

/// The n-th operation of a save (and the pruning after it) fails, for every n: what was there or what is new loads,
/// nothing else, and the next save works.
class StoreFaults : public StoreTest, public testing::WithParamInterface<Fault> {};

TEST_P(StoreFaults, OldOrNewAlwaysLoads) {
  for (const bool same_step : {false, true}) {
    const int64_t step = same_step ? 1 : 2;
    bool reached = true;
    for (int at = 0; reached; ++at) {
      for (uint32_t seed = 0; seed < (GetParam() == Fault::power_loss ? 4 : 1); ++seed) {
        TemporaryFolder folder, backups;
        Store before(files_, folder / "ckpt", {"run", "cnn"});
        save(before, 1, 1);
        bool failed = false;
        {
          FaultyFileSystem faulty(GetParam(), at, backups.path(), seed);
          try {
            Store store(faulty, folder / "ckpt", {"run", "cnn"});
            save(store, step, 2);
            store.prune(1);
          } catch (const Error& e) {
            ASSERT_EQ(e.code(), ExitCode::io) << e.what();
            ASSERT_TRUE(GetParam() != Fault::eintr && GetParam() != Fault::partial) << e.what();
            failed = true;
          } catch (const Crash&) {
            failed = true;
          }
          reached = faulty.operations() > at;
        }
        const Store after(files_, folder / "ckpt", {"run", "cnn"});
        const auto good = after.newest_good([&](const std::string& line) { ADD_FAILURE() << line << " at " << at; });
        ASSERT_TRUE(good) << at;
        const Checkpoint c = after.load(*good);
        const bool is_new = *good == step && holds(c, 2), is_old = *good == 1 && holds(c, 1);
        ASSERT_TRUE(is_new || is_old) << at;
        ASSERT_TRUE(failed || is_new) << at;
        Store next(files_, folder / "ckpt", {"run", "cnn"});
        next.recover(ignore);
        ASSERT_EQ(next.newest_good(ignore), good);
        save(next, 3, 3);
        next.prune(1);
        ASSERT_TRUE(holds(next.load(3), 3));
        ASSERT_EQ(list_folder(folder / "ckpt"), std::vector<std::string>{"step-00000003"}) << at;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, StoreFaults,
                         testing::Values(Fault::none, Fault::crash, Fault::power_loss, Fault::eio, Fault::enospc,
                                         Fault::estale, Fault::eintr, Fault::full, Fault::partial));

}  // namespace
}  // namespace ct
