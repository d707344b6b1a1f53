#include "train/run/checkpoint.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/paths.h"
#include "base/temporary_folder.h"
#include "checkpoint/samples.h"
#include "checkpoint/weights_hash.h"
#include "comm/host/threads.h"
#include "model/models.h"
#include "plan/lower.h"
#include "train/initial_weights.h"

namespace ct {
namespace {

constexpr int kMicroBatches = 12;

/// Convolution, batch normalisation, padded rows, flattened images: every way for a parameter to lie in memory, and
/// weights of several grains.
ValueId small_net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.max_pool(g.batchnorm(g.conv2d(images, "conv", 16, 3), "bn", Activation::relu), 2);
  return g.linear(g.linear(g.flatten(h), "hidden", 20, {.activation = Activation::relu}), "out", classes);
}

Graph graph_of_small_net() {
  const float scale = 1 / 127.5f;
  return build_graph(
      small_net,
      {.batch = 1, .height = 8, .width = 8, .classes = 5, .scale = {scale, scale, scale}, .shift = {-1, -1, -1}});
}

struct Setting {
  int ranks, stage;
};

/// One rank's engine of a setting.
struct Rank {
  Rank(Communicator& comm, int stage, std::optional<EmaOptions> ema = {})
      : comm_(comm), backend(make_cpu_backend()), graph(graph_of_small_net()) {
    backend->enter_thread();
    engine = std::make_unique<Engine>(*backend, comm,
                                      lower_training(graph, {.optimizer = optim::AdamW{}, .ema = ema},
                                                     {.ranks = comm.size(),
                                                      .rank = comm.rank(),
                                                      .accumulation = kMicroBatches / comm.size(),
                                                      .zero_stage = stage}),
                                      [](int64_t) {
                                        return ScheduleRow{.lr = 0.01, .coefficients = {0.9, 0.999, 0.1, 0.001}};
                                      });
  }
  /// Values of every state that depend on their place alone.
  void fill(float first) {
    for (const StateBuffer& state : engine->state()) {
      std::vector<float> values;
      write_weights(graph, engine->lowered().flat, state, [&](size_t p) -> std::span<const float> {
        values.resize(static_cast<size_t>(graph.parameters()[p].layout.numel()));
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = first + static_cast<float>(p) + static_cast<float>(i) / 4096;
        return values;
      });
      first += 100;
    }
  }
  Communicator& comm_;
  std::unique_ptr<Backend> backend;
  Graph graph;
  std::unique_ptr<Engine> engine;
};
constexpr EmaOptions kEma{.decay = 0.9};

class CheckpointTest : public testing::Test {
 protected:
  const Provenance provenance_{.config = "config", .ranks = 1, .dataset = "CIFAR-10", .data_crc = 7, .device = "cpu"};

  CheckpointWriter writer(Rank& rank, const Path& out, RunFolder* folder = nullptr, bool asynchronous = true) {
    return CheckpointWriter({.comm = rank.comm_,
                             .out = out,
                             .folder = folder,
                             .graph = rank.graph,
                             .engine = *rank.engine,
                             .asynchronous = asynchronous});
  }
  static void on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
    run_ranks(ranks, [&](Communicator& comm) { return body(comm), 0; });
  }
  /// `ckpt inspect --hash`
  static std::string hash(const Path& checkpoint) {
    const Checkpoint c = load_checkpoint(checkpoint, {});
    auto tensors = logical_tensors(std::span(&c.weights, 1));
    const auto moments = c.moments();
    tensors.insert(tensors.end(), moments.begin(), moments.end());
    return state_sha256(tensors, to_json(run_state_from(c.state, c.state_path())));
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, AnyRanksAndStageReadAnyOther) {
  std::vector<Setting> settings;
  for (const int ranks : {1, 2, 3, 4})
    for (const int stage : {0, 1, 2, 3})
      if (ranks > 1 || stage == 0) settings.push_back({ranks, stage});
  const auto path_of = [&](const Setting& s) { return folder_ / str("from-", s.ranks, "-", s.stage); };
  for (const Setting& s : settings) {
    std::filesystem::create_directory(path_of(s));
    on_ranks(s.ranks, [&](Communicator& comm) {
      Rank rank(comm, s.stage, kEma);
      rank.fill(1);
      auto saves = writer(rank, path_of(s));
      saves.begin({.step = 5, .scalars = {.applied = 5}}, provenance_, {});
      rank.fill(5000);  // the snapshot is complete
      const auto saved = saves.finish();
      EXPECT_EQ(saved.path, (path_of(s) / "ckpt" / step_name(5)).string());
      EXPECT_FALSE(saves.pending());
      EXPECT_GT(saves.snapshot_bytes(), 0u);
    });
  }
  const std::string expected = hash(path_of(settings[0]) / "ckpt" / step_name(5));
  for (const Setting& from : settings) {
    const Path checkpoint = path_of(from) / "ckpt" / step_name(5);
    EXPECT_EQ(hash(checkpoint), expected);
    for (const Setting& to : settings) {
      const Path again = folder_ / "again";
      std::filesystem::create_directory(again);
      on_ranks(to.ranks, [&](Communicator& comm) {
        Rank rank(comm, to.stage, kEma);
        EXPECT_EQ(restore_checkpoint(checkpoint, "", rank.graph, *rank.engine).step, 5);
        auto saves = writer(rank, again, nullptr, /*asynchronous=*/false);
        saves.begin({.step = 5, .scalars = {.applied = 5}}, provenance_, {});
        saves.finish();
        EXPECT_EQ(saves.snapshot_bytes(), 0u);
      });
      ASSERT_EQ(hash(again / "ckpt" / step_name(5)), expected)
          << from.ranks << " ranks in stage " << from.stage << " to " << to.ranks << " in stage " << to.stage;
      std::filesystem::remove_all(again);
    }
  }
}

TEST_F(CheckpointTest, WeightsFilesAreTheSameForAnyRanksAndStage) {
  std::string alone;
  for (const Setting& s : {Setting{1, 0}, {2, 0}, {3, 2}, {4, 3}}) {
    on_ranks(s.ranks, [&](Communicator& comm) {
      Rank rank(comm, s.stage);
      rank.fill(3);
      writer(rank, folder_.path()).write_weights("last.bin", {{"a", "b"}});
    });
    const std::string now = read_file(folder_ / "last.bin");
    if (alone.empty()) alone = now;
    EXPECT_EQ(now, alone);
  }
  const SafetensorsFile file(folder_ / "last.bin");
  EXPECT_EQ(weights_sha256_of(folder_ / "last.bin"), weights_sha256(file.views()));
  ASSERT_TRUE(file.find("bn.running_var"));
  EXPECT_EQ(file.find("hidden.weight")->shape[0], 20);
  ASSERT_TRUE(file.find("bn.num_batches_tracked"));
  EXPECT_EQ(describe(*file.find("bn.num_batches_tracked")), "I64 []");
  EXPECT_EQ(element(*file.find("bn.num_batches_tracked"), 0), 0);
  // And back, with or without PyTorch's counter, into what is held and into what layers compute with.
  auto views = file.views();
  std::erase_if(views, [](const TensorView& t) { return t.name == "bn.num_batches_tracked"; });
  FileSystem files;
  write_safetensors(files, folder_ / "torch.bin", views, {});
  {
    const SafetensorsFile without(folder_ / "torch.bin");
    const auto comm = make_solo();
    Rank rank(*comm, 0);
    load_weights(without, rank.graph, rank.engine->lowered().flat, rank.engine->state().front());
    writer(rank, folder_.path()).write_weights("back.bin", {{"a", "b"}});
    EXPECT_EQ(read_file(folder_ / "back.bin"), alone);
  }
  const int64_t counter = 7;
  views.push_back({"bn.num_batches_tracked", StoredType::i64, {}, std::as_bytes(std::span(&counter, 1))});
  write_safetensors(files, folder_ / "torch.bin", views, {});
  const SafetensorsFile torch(folder_ / "torch.bin");
  const auto comm = make_solo();
  Rank rank(*comm, 0);
  rank.fill(9);
  load_weights(torch, rank.graph, rank.engine->lowered().flat, rank.engine->state().front());
  writer(rank, folder_.path()).write_weights("back.bin", {{"a", "b"}});
  EXPECT_EQ(read_file(folder_ / "back.bin"), alone);
  rank.engine->state_written();
  std::vector<std::byte> compute(static_cast<size_t>(rank.engine->lowered().flat.compute_bytes));
  load_compute_weights(torch, WeightSet::weights, rank.graph, rank.engine->lowered().flat, compute.data());
  for (const Range& p : rank.engine->lowered().flat.parameters) {
    const auto at = static_cast<size_t>(byte_of(rank.engine->lowered().flat.runs, p.begin));
    EXPECT_EQ(std::memcmp(compute.data() + at, rank.engine->params() + at, static_cast<size_t>(p.size()) * 4), 0);
  }
  views[0].name = "another";
  write_safetensors(files, folder_ / "torch.bin", views, {});
  EXPECT_NE(error_of(ExitCode::checkpoint,
                     [&] {
                       load_weights(SafetensorsFile(folder_ / "torch.bin"), rank.graph, rank.engine->lowered().flat,
                                    rank.engine->state().front());
                     }),
            "");
}

TEST_F(CheckpointTest, AnAverageLiesBesideTheWeights) {
  on_ranks(3, [&](Communicator& comm) {
    Rank rank(comm, 2, kEma);
    rank.fill(3);  // the weights; of the average it is 103
    writer(rank, folder_.path()).write_weights("last.bin", {{"cifar_train.evaluated", "ema"}});
  });
  const SafetensorsFile file(folder_ / "last.bin");
  EXPECT_TRUE(has_ema(file));
  EXPECT_EQ(evaluated_set(file), WeightSet::ema);
  EXPECT_EQ(element(*file.find("bn.running_mean"), 2), element(*file.find("bn.running_mean.ema"), 2) - 100);
  const auto comm = make_solo();
  Rank rank(*comm, 0, kEma), other(*comm, 0);
  other.fill(103);
  // As the average's own buffer, as what layers compute with, and as initial weights.
  const FlatLayout& flat = rank.engine->lowered().flat;
  load_weights(file, rank.graph, flat, rank.engine->state()[1]);
  std::vector<std::byte> compute(static_cast<size_t>(flat.compute_bytes));
  load_compute_weights(file, WeightSet::ema, rank.graph, flat, compute.data());
  load_initial_weights(file, {}, rank.graph, flat, rank.engine->state()[0]);
  for (const Range& p : flat.parameters) {
    const auto bytes = static_cast<size_t>(p.size()) * sizeof(float);
    const auto expected = other.engine->state()[0](p);
    for (const StateBuffer& state : {rank.engine->state()[0], rank.engine->state()[1]})
      EXPECT_EQ(std::memcmp(state(p).data(), expected.data(), bytes), 0) << state.name;
    EXPECT_EQ(std::memcmp(compute.data() + byte_of(flat.runs, p.begin), expected.data(), bytes), 0);
  }
  writer(other, folder_.path()).write_weights("other.bin", {});
  EXPECT_EQ(ema_sha256_of(folder_ / "last.bin"), weights_sha256_of(folder_ / "other.bin"));
  EXPECT_NE(weights_sha256_of(folder_ / "last.bin"), weights_sha256_of(folder_ / "other.bin"));
  EXPECT_EQ(ema_sha256_of(folder_ / "other.bin"), "");
  const SafetensorsFile without(folder_ / "other.bin");
  EXPECT_EQ(evaluated_set(without), WeightSet::weights);
  const std::string error =
      error_of(ExitCode::checkpoint, [&] { load_weights(without, rank.graph, flat, rank.engine->state()[1]); });
  EXPECT_NE(error.find("other.bin' has no moving average of its weights"), std::string::npos) << error;
}

/// What is called X.ema is an average only where there is an X.
TEST_F(CheckpointTest, ANameAloneMakesNoAverage) {
  const auto comm = make_solo();
  Rank rank(*comm, 0);
  rank.fill(3);
  writer(rank, folder_.path()).write_weights("plain.bin", {});
  FileSystem files;
  const auto stray = [&](const std::string& name) {
    const SafetensorsFile plain(folder_ / "plain.bin");
    auto views = plain.views();
    views.push_back({name, StoredType::f32, views[0].shape, views[0].data});
    write_safetensors(files, folder_ / "stray.bin", views, {{"cifar_train.evaluated", "ema"}});
    return SafetensorsFile(folder_ / "stray.bin");
  };
  const SafetensorsFile alone = stray("nothing.ema");
  EXPECT_FALSE(has_ema(alone));
  EXPECT_EQ(evaluated_set(alone), WeightSet::weights);
  EXPECT_EQ(ema_sha256_of(folder_ / "stray.bin"), "");
  EXPECT_NE(weights_sha256_of(folder_ / "stray.bin"), weights_sha256_of(folder_ / "plain.bin"));
  const FlatLayout& flat = rank.engine->lowered().flat;
  const std::string error =
      error_of(ExitCode::checkpoint, [&] { load_weights(alone, rank.graph, flat, rank.engine->state().front()); });
  EXPECT_NE(error.find("'nothing.ema'"), std::string::npos) << error;
  EXPECT_TRUE(has_ema(stray("bn.weight.ema")));
  EXPECT_EQ(weights_sha256_of(folder_ / "stray.bin"), weights_sha256_of(folder_ / "plain.bin"));
}

TEST_F(CheckpointTest, DamagedElementsAreFoundByTheRankThatReadsThem) {
  on_ranks(2, [&](Communicator& comm) {
    Rank rank(comm, 1);
    rank.fill(1);
    auto saves = writer(rank, folder_.path());
    saves.begin({.step = 1, .scalars = {.applied = 1}}, provenance_, {});
    while (!saves.poll()) std::this_thread::yield();
  });
  const Path checkpoint = folder_ / "ckpt" / step_name(1), shard = checkpoint / "optim-01-of-02.safetensors";
  std::string text = read_file(shard);
  text.back() = static_cast<char>(text.back() ^ 1);  // of the last tensor by name that rank 1 owns rows of
  std::filesystem::remove(shard);
  spill(shard, text);
  const auto comm = make_solo();
  Rank rank(*comm, 0);
  const std::string error =
      error_of(ExitCode::checkpoint, [&] { restore_checkpoint(checkpoint, "", rank.graph, *rank.engine); });
  EXPECT_NE(error.find("optim-01-of-02.safetensors"), std::string::npos) << error;
  EXPECT_NE(error.find("tensor 'hidden.weight.exp_avg_sq'"), std::string::npos) << error;
}

TEST_F(CheckpointTest, BestWeightsStayBesideTheCheckpointsThatHadThem) {
  Config config;
  config.output = folder_.path().string();
  config.checkpoint.keep_last = 1;
  Console console(false, Verbosity::quiet);
  on_ranks(2, [&](Communicator& comm) {
    std::unique_ptr<RunFolder> folder;
    if (comm.rank() == 0) folder = std::make_unique<RunFolder>(config, 2, ResumeMode{}, false, console);
    require_shared_folder(comm, folder_.path());
    Rank rank(comm, 2);
    auto saves = writer(rank, folder_.path(), folder.get());
    for (int64_t step = 1; step <= 3; ++step) {
      rank.fill(static_cast<float>(step));
      saves.write_weights("best.bin", {});
      saves.begin({.step = step, .scalars = {.applied = step}, .best_step = step}, provenance_, {});
      rank.fill(-1);
      if (comm.rank() == 0) spill(folder_ / "junk", "x");
      saves.finish();
    }
    comm.barrier();
  });
  EXPECT_EQ(list_folder(folder_ / "ckpt"), (std::vector<std::string>{"best-00000003.bin", "latest", "step-00000003"}));
  EXPECT_EQ(read_file(folder_ / "ckpt" / "best-00000003.bin"), read_file(folder_ / "best.bin"));
  EXPECT_EQ(list_folder(folder_.path()), (std::vector<std::string>{".lock", "best.bin", "ckpt", "junk"}));
}

/// As by `mv run moved; mv other run` in the middle of a save.
TEST_F(CheckpointTest, AFolderThatTakesItsFoldersNameStaysAsItIs) {
  const Path out = folder_ / "run", moved = folder_ / "moved";
  Config config;
  config.output = out.string();
  config.checkpoint.keep_last = 1;
  Console console(false, Verbosity::quiet);
  const std::vector<std::string> of_other{"best-00000007.bin", "latest", "step-00000001", "step-00000007"};
  on_ranks(2, [&](Communicator& comm) {
    std::unique_ptr<RunFolder> folder;
    if (comm.rank() == 0) folder = std::make_unique<RunFolder>(config, 2, ResumeMode{}, false, console);
    require_shared_folder(comm, out);
    Rank rank(comm, 2);
    auto saves = writer(rank, out, folder.get());
    saves.begin({.step = 1, .scalars = {.applied = 1}, .best_step = 1}, provenance_, {});
    saves.finish();
    saves.begin({.step = 2, .scalars = {.applied = 2}, .best_step = 2}, provenance_, {});
    comm.barrier();
    if (comm.rank() == 0) {
      std::filesystem::rename(out, moved);
      std::filesystem::create_directories(out / "ckpt");
      for (const std::string& name : of_other) std::filesystem::create_directory(out / "ckpt" / name);
    }
    comm.barrier();
    const std::string warning = saves.finish().warning;
    if (comm.rank() == 0) {
      EXPECT_NE(warning.find("moved, removed or replaced"), std::string::npos) << warning;
    }
    saves.write_weights("last.bin", {});
    comm.barrier();
  });
  EXPECT_EQ(list_folder(out), std::vector<std::string>{"ckpt"});
  EXPECT_EQ(list_folder(out / "ckpt"), of_other);
  EXPECT_TRUE(is_there(moved / "last.bin"));
  EXPECT_TRUE(is_there(moved / "ckpt" / "step-00000001"));
  EXPECT_TRUE(is_there(moved / "ckpt" / "step-00000002"));
}

TEST_F(CheckpointTest, AFolderOfItsOwnIsFound) {
  const std::string error = error_of(ExitCode::io, [&] {
    on_ranks(2,
             [&](Communicator& comm) { require_shared_folder(comm, folder_ / (comm.rank() == 0 ? "here" : "there")); });
  });
  EXPECT_NE(error.find("there"), std::string::npos) << error;
  EXPECT_NE(error.find("host"), std::string::npos) << error;
  EXPECT_TRUE(list_folder(folder_ / "here").empty());
}

}  // namespace
}  // namespace ct
