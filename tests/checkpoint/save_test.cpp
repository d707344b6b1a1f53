#include "checkpoint/save.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/temporary_folder.h"
#include "checkpoint/saving.h"
#include "checkpoint/tensor_differences.h"
#include "checkpoint/weights_hash.h"
#include "comm/all_ranks.h"
#include "comm/host/threads.h"

namespace ct {
namespace {

const RunIdentity kRun{"run-1", "cnn"};

void on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  run_ranks(ranks, [&](Communicator& comm) { return body(comm), 0; });
}

class SaveTest : public testing::Test {
 protected:
  void save(int ranks, int64_t step, uint32_t seed, const RunIdentity& run = kRun) {
    on_ranks(ranks, [&](Communicator& comm) {
      Store store(files_, path_, run);
      save_samples(comm, store, step, seed);
    });
  }
  std::string hash(int64_t step) {
    const Checkpoint c = store_.load(step);
    auto tensors = logical_tensors(std::span(&c.weights, 1));
    const auto moments = c.moments();
    tensors.insert(tensors.end(), moments.begin(), moments.end());
    return state_sha256(tensors, c.state);
  }
  Path file(int64_t step, const std::string& name) { return store_.path_of(step) / name; }

  TemporaryFolder folder_;
  QuickFileSystem files_;
  Path path_ = folder_ / "ckpt";
  Store store_{files_, path_, kRun};
};

TEST_F(SaveTest, AnyNumberOfRanksSavesTheSame) {
  for (const int ranks : {1, 2, 3, 4, 7}) save(ranks, ranks, 5);
  const std::string weights = read_file(file(1, "weights.safetensors"));
  for (const int ranks : {1, 2, 3, 4, 7}) {
    EXPECT_TRUE(store_.verify(ranks).empty()) << store_.verify(ranks).front().what();
    const Checkpoint c = store_.load(ranks);
    EXPECT_EQ(c.optimizer.size(), static_cast<size_t>(ranks));
    EXPECT_TRUE(holds(c, 5));
    EXPECT_EQ(hash(ranks), hash(1));
    EXPECT_EQ(weights_sha256({*c.weights.find("conv1.weight")}),
              weights_sha256({*store_.load(1).weights.find("conv1.weight")}));
    EXPECT_EQ(c.weights.metadata().at("model"), "{}");
  }
  EXPECT_EQ(list_folder(path_ / "step-00000002"),
            (std::vector<std::string>{"manifest.json", "optim-00-of-02.safetensors", "optim-01-of-02.safetensors",
                                      "state.json", "weights.safetensors"}));
  const Checkpoint c = store_.load(4);
  EXPECT_EQ(c.optimizer[1].metadata().at("rows.conv1.weight"), "1:3 of 6");
  EXPECT_EQ(c.optimizer[1].find("conv1.weight")->shape, (std::vector<int64_t>{2, 3, 5, 5}));
  std::vector<std::pair<int64_t, size_t>> runs;
  find(c.moments(), "conv1.weight")->visit(2, 5, [&](int64_t row, std::span<const std::byte> bytes) {
    runs.emplace_back(row, bytes.size() / 300);
  });
  EXPECT_EQ(runs, (std::vector<std::pair<int64_t, size_t>>{{2, 1}, {3, 1}, {4, 1}}));
}

TEST_F(SaveTest, WhatIsNotFiniteIsRecordedWhicheverRankWritesIt) {
  for (const int ranks : {1, 2, 4, 7}) {
    on_ranks(ranks, [&](Communicator& comm) {
      Store store(files_, path_, kRun);
      save_samples(comm, store, ranks, 1, spoil);
    });
    EXPECT_TRUE(store_.verify(ranks).empty());
    const std::vector<std::string> names{"conv1.bias", "conv1.weight"};
    EXPECT_EQ(store_.manifest(ranks).not_finite, names);
  }
  save(2, 8, 1);
  EXPECT_EQ(store_.manifest(8).not_finite, std::vector<std::string>{});
  EXPECT_EQ(not_finite_text({}), "");
  EXPECT_EQ(not_finite_text({"a"}), "tensor 'a' is not finite");
  EXPECT_EQ(not_finite_text({"a", "b"}), "2 tensors are not finite (the first is 'a')");
}

TEST_F(SaveTest, TensorsOfManyBuckets) {
  Samples samples;
  samples.add("large", StoredType::f32, {3001, 1000});
  samples.add("long rows", StoredType::u8, {3, 5 << 20});
  const auto tensors = samples.views();
  on_ranks(3, [&](Communicator& comm) {
    SaveContents contents = contents_of(tensors, tensors, comm.rank(), comm.size());
    contents.state = {{"seed", 1}};
    Store store(files_, path_, kRun);
    CheckpointSave(comm, store, std::move(contents)).finish();
  });
  const Checkpoint c = store_.load(0);
  std::vector<std::byte> storage;
  const auto moments = c.moments();
  for (const TensorView& t : tensors) {
    EXPECT_TRUE(same(t, *c.weights.find(t.name)));
    EXPECT_TRUE(same(t, find(moments, t.name)->view(storage)));
  }
}

TEST_F(SaveTest, OneBucketThatIsNotFiniteIsEnough) {
  Samples samples;
  samples.add("large", StoredType::f32, {3001, 1000});
  const auto tensors = samples.views();
  SaveContents contents = contents_of(tensors, tensors, 0, 1);
  contents.read_weights = [&](const Rows& rows, std::span<std::byte> out) {
    reader_of(tensors)(rows, out);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    if (tensors[rows.tensor].name == "large" && rows.begin == 0) std::memcpy(out.data(), &nan, sizeof nan);
  };
  CheckpointSave(*make_solo(), store_, std::move(contents)).finish();
  EXPECT_EQ(store_.manifest(0).not_finite, std::vector<std::string>{"large"});
}

TEST_F(SaveTest, InTheBackgroundUntilPolled) {
  on_ranks(3, [&](Communicator& comm) {
    Store store(files_, path_, kRun);
    const Samples samples(8), moments(1008);
    const auto weights = samples.views(), others = moments.views();
    SaveContents contents = contents_of(weights, others, comm.rank(), comm.size());
    contents.background = true;
    contents.step = 8;
    contents.state = {{"seed", 8}};
    std::atomic<bool> go = false;
    contents.read_weights = [&, read = reader_of(weights)](const Rows& rows, std::span<std::byte> out) {
      while (!go) std::this_thread::yield();
      read(rows, out);
    };
    CheckpointSave save(comm, store, std::move(contents));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(save.poll());  // rank 1 has not begun
    EXPECT_TRUE(store.list().empty());
    comm.barrier();
    go = true;
    while (!save.poll()) std::this_thread::yield();
    EXPECT_TRUE(holds(store.load(8), 8));
    comm.barrier();
  });
}

TEST_F(SaveTest, GivenUpItLeavesNoCheckpoint) {
  save(2, 1, 1);
  on_ranks(2, [&](Communicator& comm) {
    Store store(files_, path_, kRun);
    const Samples samples(2);
    const auto tensors = samples.views();
    SaveContents contents = contents_of(tensors, tensors, comm.rank(), comm.size());
    contents.step = 2;
    CheckpointSave save(comm, store, std::move(contents));
  });
  EXPECT_EQ(store_.list(), (std::vector<int64_t>{1}));
  store_.recover([](const std::string& line) { ADD_FAILURE() << line; });
  EXPECT_EQ(list_folder(path_), std::vector<std::string>{"step-00000001"});
}

/// The n-th operation of one rank fails: all ranks throw the same, none hangs, the earlier checkpoint is intact.
class SaveFaults : public SaveTest, public testing::WithParamInterface<std::tuple<Fault, int>> {};

TEST_P(SaveFaults, FailOnAllRanksOrNone) {
  constexpr int kRanks = 3;
  const auto [fault, where] = GetParam();
  bool reached = true;
  int failures = 0;
  for (int at = 0; reached; ++at) {
    TemporaryFolder folder, backups;
    const Path path = folder / "ckpt";
    std::mutex mutex;
    std::map<std::string, int> errors;
    on_ranks(kRanks, [&, fault = fault, where = where](Communicator& comm) {
      Store before(files_, path, kRun);
      save_samples(comm, before, 1, 1);
      FaultyFileSystem faulty(fault, at, backups.path());
      const bool mine = comm.rank() == where;
      Store store(mine ? static_cast<FileSystem&>(faulty) : files_, path, kRun);
      std::string error;
      try {
        save_samples(comm, store, 2, 2);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::io) << e.what();
        error = e.what();
      }
      {
        const std::lock_guard lock(mutex);
        ++errors[error];
        if (mine) reached = faulty.operations() > at;
      }
      comm.barrier();
    });
    ASSERT_EQ(errors.size(), 1u) << at;
    ASSERT_EQ(errors.begin()->second, kRanks);
    const std::string error = errors.begin()->first;
    Store after(files_, path, kRun);
    const auto good = after.newest_good([&](const std::string& line) { ADD_FAILURE() << line << " at " << at; });
    ASSERT_TRUE(good);
    if (error.empty()) {
      ASSERT_EQ(*good, 2);
    } else {
      ++failures;
      EXPECT_TRUE(error.starts_with(str("rank ", where, " on host "))) << error;
    }
    ASSERT_TRUE(holds(after.load(*good), static_cast<uint32_t>(*good)));
    on_ranks(kRanks, [&](Communicator& comm) {
      Store next(files_, path, kRun);
      save_samples(comm, next, 3, 3);
    });
    ASSERT_TRUE(holds(after.load(3), 3)) << at;
  }
  EXPECT_GT(failures, 3);
}

INSTANTIATE_TEST_SUITE_P(All, SaveFaults,
                         testing::Combine(testing::Values(Fault::eio, Fault::enospc, Fault::estale, Fault::full),
                                          testing::Values(0, 2)));

TEST_F(SaveTest, AFailedSaveLeavesNothingBehind) {
  save(2, 1, 1);
  const std::string error = error_of(ExitCode::io, [&] {
    on_ranks(2, [&](Communicator& comm) {
      Store store(files_, path_, kRun);
      save_samples(comm, store, 2, 2, [&](SaveContents& contents) {
        if (comm.rank() == 1)
          contents.read_moments = [](const Rows&, std::span<std::byte>) { fail(ExitCode::io, "no space"); };
      });
    });
  });
  EXPECT_NE(error.find("rank 1 on host"), std::string::npos) << error;
  EXPECT_EQ(list_folder(path_), std::vector<std::string>{"step-00000001"});
}

TEST_F(SaveTest, BadShards) {
  const Path shard = file(2, "optim-01-of-03.safetensors"), weights = file(2, "weights.safetensors");
  const auto refused = [&](std::initializer_list<std::string> words) {
    for (const bool relisted : {false, true}) {
      if (relisted) relist(store_.path_of(2));  // the manifest lies too
      const std::string error = error_of(ExitCode::checkpoint, [&] { load_checkpoint(store_.path_of(2), {}); });
      EXPECT_FALSE(error.empty());
      EXPECT_FALSE(store_.verify(2).empty());
      for (const std::string& word : words)
        if (relisted) {
          EXPECT_NE(error.find(word), std::string::npos) << word << " in: " << error;
        }
    }
    std::filesystem::remove_all(path_ / step_name(2));
    save(3, 2, 2);
  };
  const auto replace = [&](const Path& by) {
    std::filesystem::copy_file(by, shard, std::filesystem::copy_options::overwrite_existing);
  };
  const auto rewrite = [&](const std::function<void(std::vector<TensorView>&, Metadata&)>& change) {
    const SafetensorsFile old(shard);
    auto tensors = old.views();
    Metadata metadata = old.metadata();
    change(tensors, metadata);
    write_safetensors(files_, folder_ / "new", tensors, metadata);
    replace(folder_ / "new");
  };
  save(3, 2, 2);
  save(3, 1, 1);

  std::filesystem::remove(shard);
  EXPECT_NE(std::string(store_.verify(2).front().what()).find("optim-01-of-03.safetensors': it is missing"),
            std::string::npos);
  replace(file(1, "optim-01-of-03.safetensors"));
  refused({"optim-01-of-03", "step"});
  replace(file(2, "optim-00-of-03.safetensors"));
  refused({"optim-01-of-03", "checkpoint.shard", "0 of 3"});
  std::filesystem::copy_file(file(1, "weights.safetensors"), weights,
                             std::filesystem::copy_options::overwrite_existing);
  refused({"weights.safetensors", "step"});
  rewrite([](auto&, Metadata& m) { m["checkpoint.run"] = "run-2"; });
  refused({"optim-01-of-03", "run-2"});
  rewrite([](auto&, Metadata& m) { m["checkpoint.model"] = "vit"; });
  refused({"optim-01-of-03", "vit"});
  rewrite([](auto&, Metadata& m) { m.erase("checkpoint.run"); });
  refused({"optim-01-of-03", "nothing"});
  rewrite([](auto&, Metadata& m) { m["rows.conv1.weight"] = "1:3 of 6"; });
  refused({"optim-0", "conv1.weight"});
  rewrite([](auto&, Metadata& m) { m["rows.conv1.weight"] = "3:5 of 6"; });
  refused({"optim-0", "conv1.weight"});
  for (const std::string text : {"", "2:4", "2:4 of 7", "2:5 of 6", "4:2 of 6", "-2:0 of 6", "+2:4 of 6", "2:4 of 3",
                                 "2: 4 of 6", "2:4 of 6 ", "2:4 of 99999999999999999999", "junk"}) {
    rewrite([&](auto&, Metadata& m) { m["rows.conv1.weight"] = text; });
    refused({"optim-0", "conv1.weight"});
  }
  rewrite([](auto&, Metadata& m) { m.erase("rows.conv1.weight"); });
  refused({"conv1.weight"});
  rewrite([](auto& t, Metadata&) { std::erase_if(t, [](const TensorView& v) { return v.name == "conv1.weight"; }); });
  refused({"optim-02-of-03", "conv1.weight", "2:4"});
  rewrite([](auto& t, Metadata&) {
    for (TensorView& v : t)
      if (v.name == "conv1.weight") v.shape = {2, 75, 1, 1};
  });
  refused({"conv1.weight", "[6, 75, 1, 1]"});
  rewrite([](auto& t, Metadata&) {
    for (TensorView& v : t)
      if (v.name == "conv1.weight") v.dtype = StoredType::i32;
  });
  refused({"conv1.weight", "I32"});
  EXPECT_TRUE(store_.verify(2).empty());
}

TEST_F(SaveTest, FilesWithoutMarksAreRefused) {
  for (const char* name : {"weights.safetensors", "optim-00-of-01.safetensors"}) {
    save(1, 1, 1);
    const Path path = file(1, name);
    {
      const SafetensorsFile marked(path);
      write_safetensors(files_, folder_ / name, marked.views(), {{"model", "{}"}});
    }
    std::filesystem::rename(folder_ / name, path);
    relist(store_.path_of(1));
    EXPECT_NE(error_of(ExitCode::checkpoint, [&] { store_.load(1); }).find(str(name, "': it belongs elsewhere")),
              std::string::npos);
    std::filesystem::remove_all(store_.path_of(1));
  }
}

TEST_F(SaveTest, OneFileTogether) {
  const Samples samples(4);
  const auto tensors = samples.views();
  write_safetensors(files_, folder_ / "alone", tensors, {{"a", "b"}});
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, [&](Communicator& comm) {
      const SaveContents c = contents_of(tensors, tensors, comm.rank(), ranks);
      const Metadata metadata = comm.rank() == 0 ? Metadata{{"a", "b"}} : Metadata{{"longer than", "rank 0's"}};
      write_together(comm, files_, folder_ / "together", c.weights, metadata, c.own_weights, c.read_weights);
    });
    EXPECT_EQ(read_file(folder_ / "together"), read_file(folder_ / "alone")) << ranks;
  }
  EXPECT_NE(error_of(ExitCode::io,
                     [&] {
                       on_ranks(2, [&](Communicator& comm) {
                         const Samples others(5);
                         const auto views = others.views();
                         SaveContents c = contents_of(views, views, comm.rank(), 2);
                         if (comm.rank() == 1)
                           c.read_weights = [](const Rows&, std::span<std::byte>) { fail(ExitCode::io, "broken"); };
                         write_together(comm, files_, folder_ / "together", c.weights, {}, c.own_weights,
                                        c.read_weights);
                       });
                     }),
            "");
  EXPECT_EQ(list_folder(folder_.path()), (std::vector<std::string>{"alone", "together"}));
  EXPECT_EQ(read_file(folder_ / "together"), read_file(folder_ / "alone"));
}

TEST_F(SaveTest, OneFileTogetherSurvivesAPowerFailure) {
  const Samples samples(4);
  const auto tensors = samples.views();
  write_safetensors(files_, folder_ / "alone", tensors, {});
  for (uint32_t seed = 0; seed < 20; ++seed) {
    TemporaryFolder folder, backups;
    FaultyFileSystem files(Fault::power_loss, 1000, backups.path(), seed);
    spill(folder / "together", "old");
    on_ranks(2, [&](Communicator& comm) {
      const SaveContents c = contents_of(tensors, tensors, comm.rank(), 2);
      write_together(comm, files, folder / "together", c.weights, {}, c.own_weights, c.read_weights);
    });
    files.lose_power();
    EXPECT_TRUE(read_file(folder / "together") == read_file(folder_ / "alone")) << seed;
  }
}

/// Knows what was written and is not synced by the descriptor that wrote it: the ranks are clients of a network file
/// system, of which none sends what another one has written.
class ClientsFileSystem : public QuickFileSystem {
 public:
  ssize_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    unsynced_.insert(fd);
    return QuickFileSystem::write_at(fd, bytes, offset);
  }
  int fsync(int fd) override {
    const std::lock_guard lock(mutex_);
    unsynced_.erase(fd);
    return 0;
  }
  int close(int fd) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(unsynced_.erase(fd), 0u) << "closed, but not synced";
    return QuickFileSystem::close(fd);
  }

 private:
  std::mutex mutex_;
  std::set<int> unsynced_;
};

TEST_F(SaveTest, EveryRankSyncsWhatItWrote) {
  ClientsFileSystem clients;
  const Samples samples(4);
  const auto tensors = samples.views();
  on_ranks(3, [&](Communicator& comm) {
    Store store(clients, path_, kRun);
    save_samples(comm, store, 1, 1);
    const SaveContents c = contents_of(tensors, tensors, comm.rank(), 3);
    write_together(comm, clients, folder_ / "together", c.weights, {}, c.own_weights, c.read_weights);
  });
}

TEST_F(SaveTest, AnotherModelIsRefusedByTensor) {
  save(3, 1, 1);
  const Checkpoint c = store_.load(1);
  const auto tensors = c.moments();
  std::vector<TensorSpec> specs;
  for (const LogicalTensor& t : tensors) specs.push_back({t.name, t.dtype, t.shape});
  const auto refused = [&](const std::vector<TensorSpec>& wanted, bool (*ignored)(std::string_view) = nullptr) {
    return error_of(ExitCode::checkpoint, [&] { require_tensors(tensors, wanted, "some/path", ignored); });
  };
  EXPECT_NO_THROW(require_tensors(tensors, specs, ""));
  auto more = specs, fewer = specs, turned = specs;
  more.push_back({"extra", StoredType::f32, {1}});
  EXPECT_NE(refused(more).find("'extra'"), std::string::npos);
  std::erase_if(fewer, [](const TensorSpec& s) { return s.name == "bn.num_batches_tracked"; });
  EXPECT_NE(refused(fewer).find("'bn.num_batches_tracked'"), std::string::npos);
  EXPECT_NO_THROW(require_tensors(tensors, fewer, "", [](std::string_view n) { return n.ends_with("tracked"); }));
  for (TensorSpec& s : turned)
    if (s.name == "conv1.weight") s.shape = {3, 6, 5, 5};
  EXPECT_NE(refused(turned).find("[6, 3, 5, 5]"), std::string::npos);
  EXPECT_NE(refused(turned).find("some/path"), std::string::npos);
}

TEST(Together, AllThrowTheFirstError) {
  for (const int bad : {-1, 0, 2}) {
    std::atomic<int> threw = 0;
    on_ranks(4, [&](Communicator& comm) {
      try {
        run_on_all_ranks(comm, [&] {
          if (bad >= 0 && comm.rank() >= bad) fail(ExitCode::data, "it is ", comm.rank());
        });
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::data);
        EXPECT_NE(std::string(e.what()).find(str("rank ", bad, " on host")), std::string::npos);
        EXPECT_NE(std::string(e.what()).find(str("it is ", bad)), std::string::npos);
        ++threw;
      }
      const auto all = comm.gather(std::string(static_cast<size_t>(comm.rank()), 'x'));
      for (size_t r = 0; r < 4; ++r) EXPECT_EQ(all[r].size(), r);
    });
    EXPECT_EQ(threw, bad < 0 ? 0 : 4);
  }
}

}  // namespace
}  // namespace ct
