// From the options of a launch to the line that starts it.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/host.h"
#include "cli/launch/command.h"

namespace ct {
namespace {

class LaunchCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "launch-command-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void hostfile(const std::string& text) {
    flags_.hostfile = folder_ + "/hosts";
    std::ofstream(*flags_.hostfile) << text;
  }
  Environment environment() {
    return [this](const char* name) {
      const auto it = variables_.find(name);
      return it == variables_.end() ? nullptr : it->second.c_str();
    };
  }
  Resources resources() {
    return resources_of(
        flags_, environment(), [] { return 4; }, notes_);
  }
  std::string mpirun(Exports exports = {}) {
    return text_of(mpirun_command("mpirun", flags_, {resources(), std::move(exports), {"prog", "train"}}));
  }
  std::string srun(Exports exports = {}) {
    return text_of(srun_command(flags_, {resources(), std::move(exports), {"prog", "train"}}, environment()));
  }
  std::string error(const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "no error";
  }

  LaunchFlags flags_;
  std::map<std::string, std::string> variables_;
  std::vector<std::string> notes_;
  std::string folder_;
};

TEST_F(LaunchCommand, ThisMachineWithoutAHostfile) {
  EXPECT_EQ(mpirun(), "mpirun -np 4 --host localhost:4 --map-by slot --bind-to none prog train");
  EXPECT_TRUE(notes_.empty()) << notes_[0];
  flags_.num_gpus = 9;  // not checked against slots
  EXPECT_EQ(mpirun(), "mpirun -np 9 --host localhost:9 --map-by slot --bind-to none prog train");
}

TEST_F(LaunchCommand, AHostfileThatIsNamedMustBeThere) {
  flags_.hostfile = folder_ + "/hosts";
  EXPECT_TRUE(error([&] { mpirun(); }).starts_with("Unable to find hostfile '" + *flags_.hostfile + "'"));
}

TEST_F(LaunchCommand, HostsInTheirOrder) {
  hostfile("w0 slots=2\nw1 slots=4\n");
  EXPECT_EQ(mpirun(), "mpirun -np 6 --host w0:2,w1:4 --map-by slot --bind-to none prog train");
  EXPECT_EQ(devices_text(resources()), "");
  flags_.include = "w1:0,2@w0";
  EXPECT_EQ(mpirun(), "mpirun -np 4 --host w0:2,w1:2 --map-by slot --bind-to none prog train");
  EXPECT_EQ(devices_text(resources()), "0,1;0,2");
  flags_.include = "";
  flags_.exclude = "w0";
  EXPECT_EQ(mpirun(), "mpirun -np 4 --host w1:4 --map-by slot --bind-to none prog train");
  flags_.exclude = "";
  flags_.num_nodes = 1;
  flags_.num_gpus = 3;
  EXPECT_EQ(mpirun(), "mpirun -np 3 --host w0:3 --map-by slot --bind-to none prog train");
}

TEST_F(LaunchCommand, OneHostThatIsThisOneIsLocal) {
  hostfile(host_name() + " slots=2\n");
  EXPECT_EQ(mpirun(), "mpirun -np 2 --host localhost:2 --map-by slot --bind-to none prog train");
  flags_.force_multi = true;
  EXPECT_EQ(mpirun(), "mpirun -np 2 --host " + host_name() + ":2 --map-by slot --bind-to none prog train");
}

TEST_F(LaunchCommand, WordsAndVariables) {
  hostfile("w0 slots=1\nw1 slots=1\n");
  flags_.launcher_args = "--mca btl_tcp_if_include eth0 -wdir '/a b'";
  flags_.ssh_port = 2222;
  flags_.bind_core_list = "0-3";
  EXPECT_EQ(mpirun({{"A", "1"}, {"B", "two words"}}),
            "mpirun -np 2 --host w0:1,w1:1 --map-by slot --bind-to none --mca plm_rsh_args '-p 2222' --mca "
            "btl_tcp_if_include eth0 -wdir '/a b' -x A=1 -x 'B=two words' prog train");
  flags_.launcher_args = "'open";
  EXPECT_NE(error([&] { mpirun(); }).find("a quote is not closed"), std::string::npos);
}

TEST_F(LaunchCommand, VisibleDevices) {
  variables_["CUDA_VISIBLE_DEVICES"] = "1,3";
  EXPECT_EQ(mpirun(), "mpirun -np 2 --host localhost:2 --map-by slot --bind-to none prog train");
  EXPECT_EQ(devices_text(resources()), "1,3");
  EXPECT_EQ(notes_[0], "Detected VISIBLE_DEVICES=1,3: setting --include=localhost:1,3");
  notes_.clear();
  flags_.num_gpus = 2;
  EXPECT_EQ(devices_text(resources()), "0,1");
  EXPECT_TRUE(notes_[0].starts_with("Detected VISIBLE_DEVICES=1,3 but ignoring it because")) << notes_[0];
  flags_.num_gpus = -1;
  flags_.include = "localhost:5";
  EXPECT_EQ(devices_text(resources()), "5");
  flags_.include = "";
  variables_["CUDA_VISIBLE_DEVICES"] = "GPU-1a,GPU-2b";
  EXPECT_EQ(mpirun(), "mpirun -np 2 --host localhost:2 --map-by slot --bind-to none prog train");
  EXPECT_EQ(devices_text(resources()), "");
  variables_["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_EQ(slots_of(resources().hosts), 4);
}

TEST_F(LaunchCommand, ContradictionsAreNamed) {
  flags_.num_nodes = 2;
  EXPECT_TRUE(error([&] { mpirun(); }).starts_with("Num nodes is >1 but no extra nodes available via hostfile"));
  hostfile("w0 slots=2\nw1 slots=2\n");
  flags_.num_nodes = 3;
  EXPECT_NE(error([&] { mpirun(); }).find("--num_nodes 3: "), std::string::npos);
  flags_.include = "w0";
  EXPECT_TRUE(error([&] { mpirun(); }).starts_with("Cannot specify num_nodes/gpus with include/exclude"));
  flags_.num_nodes = -1;
  flags_.include = "";
  flags_.exclude = "w0@w1";
  EXPECT_EQ(error([&] { mpirun(); }), "no slot is left by --exclude 'w0@w1': there is nothing to start");
}

TEST_F(LaunchCommand, EveryHostByItself) {
  flags_.no_ssh = true;
  flags_.num_nodes = 3;
  flags_.num_gpus = 2;
  const Resources found = resources();
  EXPECT_FALSE(found.here);
  EXPECT_EQ(found.hosts.size(), 3u);
  EXPECT_EQ(slots_of(found.hosts), 6);
}

TEST_F(LaunchCommand, Srun) {
  hostfile("w0 slots=2\nw1 slots=2\n");
  flags_.launcher_args = "--cpu-bind=none";
  EXPECT_EQ(srun({{"A", "b c"}}),
            "env A='b c' srun -n 4 --nodes=2 --ntasks-per-node=2 --nodelist=w0,w1 --mpi=pmix --export=ALL "
            "--cpu-bind=none prog train");
  flags_.include = "w0:0@w1:1";
  EXPECT_NE(error([&] { srun(); }).find("every host must have the same number of slots"), std::string::npos);
  flags_.include = "w0:0@w1";
  EXPECT_NE(error([&] { srun(); }).find("srun needs the same number on each host"), std::string::npos);
}

TEST_F(LaunchCommand, SrunInAnAllocation) {
  EXPECT_NE(error([&] { srun(); }).find("the number of ranks is unknown"), std::string::npos);
  variables_["SLURM_NTASKS"] = "8";
  variables_["SLURM_JOB_NUM_NODES"] = "2";
  EXPECT_EQ(srun(), "srun -n 8 --nodes=2 --mpi=pmix --export=ALL prog train");
  flags_.num_gpus = 3;
  EXPECT_EQ(srun(), "srun -n 6 --nodes=2 --ntasks-per-node=3 --mpi=pmix --export=ALL prog train");
}

TEST(LaunchWords, LauncherFirst) {
  LaunchFlags flags;
  CLI::App app;
  add_launch_options(app, flags, LaunchForms::with_short);
  const auto split = [&](const Words& words) {
    const LaunchWords parts = split_launch_words(app, words);
    std::string text;
    for (const std::string& word : parts.launcher) text += word + " ";
    text += "|";
    for (const std::string& word : parts.program) text += " " + word;
    return text;
  };
  EXPECT_EQ(split({"-H", "hosts", "-e", "w0", "train", "-e", "3"}), "-H hosts -e w0 | train -e 3");
  EXPECT_EQ(split({"--num_gpus=2", "--no_ssh_check", "--config", "x.yaml", "--include", "y"}),
            "--num_gpus=2 --no_ssh_check | --config x.yaml --include y");
  EXPECT_EQ(split({"--dry-run", "--", "--dry-run"}), "--dry-run | --dry-run");
  EXPECT_EQ(split({"-H"}), "-H |");
  EXPECT_EQ(split({}), "|");
}

TEST(LaunchWords, AmongThoseOfTraining) {
  LaunchFlags flags;
  CLI::App app;
  std::string config;
  app.add_option("--config", config);
  add_launch_options(app, flags, LaunchForms::long_only);
  EXPECT_EQ(
      without_launch_options(app, {"--config", "a", "--num_gpus", "2", "-e", "3", "--no_ssh_check", "--hostfile=h"}),
      (Words{"--config", "a", "-e", "3"}));
  Words words = {"2", "--num_gpus"};
  app.parse(words);
  EXPECT_TRUE(asks_for_launch(app));
  EXPECT_EQ(flags.num_gpus, 2);
}

}  // namespace
}  // namespace ct
