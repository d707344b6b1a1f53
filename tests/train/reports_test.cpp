#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "plan/lower.h"
#include "train/config/load.h"
#include "train/config/print.h"
#include "train/config/schema.h"
#include "train/reports/comms_log.h"
#include "train/reports/flops_profile.h"
#include "train/reports/memory_breakdown.h"

namespace ct {
namespace {

#define EXPECT_PART(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

using Lines = std::vector<std::string>;

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}
/// The first line that begins so, spaces aside.
std::string line_of(const Lines& lines, const std::string& begin) {
  for (const std::string& line : lines)
    if (const size_t at = line.find_first_not_of(' '); at != std::string::npos && line.substr(at).starts_with(begin))
      return line;
  return "nothing begins with " + begin + " in\n" + joined(lines);
}

// ---- dump_state

TEST(StateDump, HasEveryKeyOnce) {
  Config config = load_config_text("optimizer: {type: Adam}\ntrain_batch_size: 24\ntrain_micro_batch_size_per_gpu: 4\n",
                                   "test.yaml");
  const Lines lines = state_dump(config, 2);
  EXPECT_EQ(lines.front(), "configuration in force:");
  std::multiset<std::string> told, wanted;
  for (size_t i = 1; i < lines.size(); ++i) told.insert(lines[i].substr(2, lines[i].find(' ', 2) - 2));
  for (const ConfigField& field : config_fields(config)) wanted.insert(field.key);
  EXPECT_EQ(told, wanted);
  const auto value = [&](const std::string& key) {
    const std::string line = line_of(lines, key + " .");
    return line.substr(line.rfind(". ") + 2);
  };
  EXPECT_EQ(value("optimizer.type"), "Adam");
  EXPECT_EQ(value("gradient_accumulation_steps"), "3") << "24 / 4 / 2 ranks";
  EXPECT_EQ(value("optimizer.params.betas"), "[0.9, 0.999]");
}

// ---- memory_breakdown

TEST(MemoryBreakdown, LeavesOutWhatThereIsNoneOf) {
  EXPECT_EQ(memory_line("planned", {.parameters = 248'000, .gradients = 248'000, .activations = 2'000'000}),
            "memory planned: parameters 248 kB, gradients 248 kB, activations 2.0 MB, in all 2.5 MB");
  EXPECT_EQ(memory_line("used", {.parameters = 5, .optimizer = 10, .activations = 50, .workspace = 20, .buckets = 1}),
            "memory used: parameters 5 B, optimizer states 10 B, activations 50 B (workspace up to 20 B of it), "
            "gradient buckets 1 B, in all 66 B");
}

TEST(MemoryBreakdown, ProcessAndDevice) {
  EXPECT_PART(process_line("after step 1", std::nullopt), "memory of the process after step 1: ");
  EXPECT_PART(process_line("after step 1", Backend::Room{"GPU 0 (X)", 3'000'000'000, 10'000'000'000}),
              " at its peak; GPU 0 (X): 7.0 GB of 10 GB taken");
}

// ---- comms_logger

const Exchange kSum{.name = "all_reduce", .what = "gradients", .bytes = 1'000'000, .seconds = 0.001};

// nccl-tests: a megabyte in a millisecond is 8 Gb/s; of four ranks each cable carries 2 * 3/4 of an all_reduce, and 3/4
// of the others.
TEST(CommsLog, Bandwidths) {
  EXPECT_DOUBLE_EQ(bandwidth(kSum, 4).algorithm, 8e9);
  EXPECT_DOUBLE_EQ(bandwidth(kSum, 4).bus, 12e9);
  EXPECT_DOUBLE_EQ(bandwidth({"all_gather", "", 1'000'000, 0.001}, 4).bus, 6e9);
  EXPECT_DOUBLE_EQ(bandwidth({"reduce_scatter", "", 1'000'000, 0.001}, 2).bus, 4e9);
}

TEST(CommsLog, CountsByNameAndSize) {
  CommsLog log({.enabled = true}, 4);
  const auto hear = log.listener();
  hear(kSum);
  hear({.name = "all_reduce", .what = "gradients", .bytes = 1'000'000, .seconds = 0.003});
  hear({.name = "all_gather", .what = "norms", .bytes = 128, .seconds = 0.001});
  const Lines table = log.table();
  ASSERT_EQ(table.size(), 3u) << joined(table);
  const auto words = [](const std::string& line) {
    std::istringstream in(line);
    return Lines{std::istream_iterator<std::string>(in), {}};
  };
  EXPECT_EQ(words(table[1]), (Lines{"all_gather", "128", "B", "1", "1.00", "1.00", "0.00", "0.00"}));
  EXPECT_EQ(words(table[2]), (Lines{"all_reduce", "1.0", "MB", "2", "4.00", "2.00", "4.00", "6.00"}));
  EXPECT_EQ(log.take_lines(), Lines{}) << "not verbose";
  EXPECT_EQ(log.doubt(), "");
}

TEST(CommsLog, VerboseHasALineACall) {
  CommsLog log({.enabled = true, .verbose = true, .debug = true}, 4);
  log.listener()(kSum);
  EXPECT_EQ(log.take_lines(), Lines{"comm op: all_reduce [gradients] | time (ms): 1.00 | msg size: 1.0 MB | algbw "
                                    "(Gbps): 8.00 | busbw (Gbps): 12.00"});
  EXPECT_EQ(log.take_lines(), Lines{});
}

TEST(CommsLog, ListensToWhatIsNamed) {
  EXPECT_FALSE(CommsLog({}, 4).listener()) << "off";
  CommsLog log({.enabled = true, .prof_all = false, .prof_ops = {"all_gather_into_tensor"}}, 4);
  log.listener()(kSum);
  EXPECT_EQ(log.table().size(), 1u);
  log.listener()({.name = "all_gather", .what = "norms", .bytes = 128, .seconds = 0.001});
  EXPECT_EQ(log.table().size(), 2u);
  EXPECT_EQ(log.doubt(), "");
  EXPECT_PART(CommsLog({.enabled = true, .prof_all = false}, 4).doubt(), "comms_logger logs nothing");
  EXPECT_PART(CommsLog({.enabled = true, .prof_all = false, .prof_ops = {"broadcast"}}, 4).doubt(),
              "prof_ops broadcast is not a collective of this program; use all_reduce, reduce_scatter or all_gather");
  EXPECT_PART(CommsLog({.enabled = true}, 1).doubt(), "one rank has nothing to exchange");
}

// ---- flops_profiler

ValueId net(Graph& g, ValueId images, int classes) {
  ValueId h = g.relu(g.conv2d(images, "block.conv1", 6, 5));
  h = g.max_pool(g.conv2d(h, "block.conv2", 4, 3), 2);
  return g.linear(g.flatten(h), "fc", classes);
}

class FlopsProfileTest : public testing::Test {
 protected:
  FlopsProfileTest()
      : graph_(build_graph(net, {.batch = 2, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}})),
        program_(lower_training(graph_, {.optimizer = optim::AdamW{}}, {})),
        profile_(graph_, program_) {
    for (const Program* steps : {&program_.last, &program_.update})
      for (const Step& step : *steps) profile_.took(step, 0.001);
  }
  Lines text(const Config::FlopsProfiler& keys = {}) const {
    return profile_.text(keys, {.model = "net", .step = 2, .images = 2, .images_of_rank = 2, .seconds = 0.1});
  }
  static constexpr double kConv1 = 2. * 28 * 28 * 6 * 3 * 25, kConv2 = 2. * 26 * 26 * 4 * 6 * 9;
  static constexpr double kFc = 2. * 13 * 13 * 4 * 10;  // multiply-adds of two images
  Graph graph_;
  LoweredProgram program_;
  FlopsProfile profile_;
};

TEST_F(FlopsProfileTest, ModulesHaveWhatLiesInThem) {
  const Lines lines = text();
  const auto has = [&](const std::string& module, int64_t parameters, double macs) {
    const std::string row =
        line_of({std::find(lines.begin(), lines.end(), line_of(lines, "Detailed")), lines.end()}, module + " ");
    EXPECT_PART(row, " " + count_text(static_cast<double>(parameters)) + " ");
    EXPECT_PART(row, " " + count_text(macs) + " ");
  };
  has("net", 456 + 220 + 6770, kConv1 + kConv2 + kFc);
  has("block", 456 + 220, kConv1 + kConv2);
  has("block.conv1", 456, kConv1);
  has("block.conv2", 220, kConv2);
  has("fc", 6770, kFc);
  for (const char* other : {"(input) ", "(loss) ", "(update) "}) EXPECT_PART(line_of(lines, other), "%");
}

TEST_F(FlopsProfileTest, OperationsWithoutParametersBelongToTheirLayers) {
  const OpModules modules(graph_, program_);
  std::map<std::string, std::set<std::string>> of;
  for (const Step& step : program_.last) of[std::string(name_of(step.op))].insert(modules.of(step.op));
  EXPECT_EQ(of["relu"], std::set<std::string>{"block.conv1"});
  EXPECT_EQ(of["relu_grad"], std::set<std::string>{"block.conv1"});
  EXPECT_EQ(of["max_pool_grad"], std::set<std::string>{"block.conv2"});
  EXPECT_EQ(of["conv2d_grad_w"], (std::set<std::string>{"block.conv1", "block.conv2"}));
  EXPECT_EQ(of["augment"], std::set<std::string>{"(input)"});
}

TEST_F(FlopsProfileTest, ModulesComeInTheNetworksOrder) {
  EXPECT_EQ(OpModules(graph_, program_).names(),
            (std::vector<std::string>{"", "block", "block.conv1", "block.conv2", "fc"}));
}

TEST_F(FlopsProfileTest, DepthAndTopModulesAreObeyed) {
  const Lines all = text();
  EXPECT_PART(joined(all), "depth 2:\n");
  const Lines one = text({.module_depth = 1, .top_modules = 1});
  EXPECT_EQ(joined(one).find("depth 2:"), std::string::npos);
  EXPECT_EQ(joined(one).find("conv1"), std::string::npos) << joined(one);
  const auto depth_1 = std::find(one.begin(), one.end(), "depth 1:");
  ASSERT_NE(depth_1, one.end());
  EXPECT_EQ(depth_1[2], "    MACs          block " + count_text(kConv1 + kConv2));
  const Lines both = text({.module_depth = 1, .top_modules = 5});
  EXPECT_EQ(std::find(both.begin(), both.end(), "depth 1:")[2],
            "    MACs          block " + count_text(kConv1 + kConv2) + ", fc " + count_text(kFc));
  EXPECT_EQ(joined(text({.detailed = false})).find("Detailed"), std::string::npos);
}

TEST_F(FlopsProfileTest, TimesAddUp) {
  const Lines lines = text();
  const size_t backward = static_cast<size_t>(std::ranges::count_if(program_.last, [](const Step& step) {
    return std::visit([](const auto& op) { return op.kFacts.role == Role::gradient; }, std::get<ComputeOp>(step.op));
  }));
  char text[64];
  std::snprintf(text, sizeof text, "%zu.000 ms", backward);
  EXPECT_PART(line_of(lines, "time of the backward pass"), text);
  std::snprintf(text, sizeof text, "%zu.000 ms", program_.update.size());
  EXPECT_PART(line_of(lines, "time of the update"), text);
  EXPECT_PART(line_of(lines, "images a second"), " 20");
}

TEST(CountText, Decimal) {
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(62006), "62.01 K");
  EXPECT_EQ(count_text(999999), "1.00 M");
  EXPECT_EQ(count_text(1.5e18), "1500.00 P");
}

}  // namespace
}  // namespace ct
