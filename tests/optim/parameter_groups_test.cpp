#include "optim/parameter_groups.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ct::optim {
namespace {

/// conv.weight, conv.bias, norm.weight, norm.bias and two statistics, fc.weight, fc.bias
Graph graph() {
  return build_graph(
      [](Graph& g, ValueId x, int classes) {
        x = g.batchnorm(g.conv2d(x, "conv", 4, 3), "norm");
        return g.linear(g.flatten(x), "fc", classes);
      },
      {.batch = 1, .height = 8, .width = 8, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
}

std::vector<std::pair<std::string, ParameterTreatment>> treated(const std::vector<ParameterGroup>& groups) {
  const Graph g = graph();
  const std::vector<ParameterTreatment> all = treatments(g, groups, 0.5);
  std::vector<std::pair<std::string, ParameterTreatment>> named;
  for (size_t i = 0; i < all.size(); ++i)
    if (!g.parameters()[i].statistic) named.emplace_back(g.parameters()[i].name, all[i]);
  return named;
}

std::string refused(const std::vector<ParameterGroup>& groups) {
  try {
    treated(groups);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(ParameterGroups, PatternsMatchNames) {
  for (const auto& [pattern, name, expected] : std::initializer_list<std::tuple<const char*, const char*, bool>>{
           {"*", "", true},
           {"layer[1-3]*", "layer1.0.conv1.weight", true},
           {"layer[1-3]*", "layer4.0.conv1.weight", false},
           {"layer[24].*", "layer4.0", true},
           {"layer[24].*", "layer3.0", false},
           {"*.[bw]*s", "fc.bias", true},
           {"[a-cx-z]", "y", true},
           {"[a-cx-z]", "d", false},
           {"[a-]", "-", true},
           {"[]]", "]", true},
           {"a[b", "a[b", true},  // no set
           {"a[b", "ab", false},
           {"fc[0-9]", "fc", false}})
    EXPECT_EQ(matches(pattern, name), expected) << pattern << " " << name;
}

TEST(ParameterGroups, RatesDecayByLayer) {
  const Graph g = graph();  // layers conv, norm, fc
  const auto all = treatments(g, {{.pattern = "*.weight", .lr_scale = 10}}, /*weight_decay=*/0, /*layer_decay=*/0.5);
  std::vector<float> scales;
  for (size_t i = 0; i < all.size(); ++i)
    if (!g.parameters()[i].statistic) scales.push_back(all[i].lr_scale);
  EXPECT_EQ(scales, (std::vector<float>{2.5f, 0.25f, 5, 0.5f, 10, 1}));
}

TEST(ParameterGroups, TheFirstThatMatchesWins) {
  const auto all = treated({{.pattern = "fc.*", .lr_scale = 0.1},
                            {.pattern = "*.b?as", .weight_decay = 0.25},
                            {.dimensions = 1, .lr_scale = 2, .weight_decay = 0}});
  const std::vector<std::pair<std::string, ParameterTreatment>> expected = {
      {"conv.weight", {{0.5, 1}, {}}}, {"conv.bias", {{0.25, 1}, {}}},   {"norm.weight", {{0, 2}, {}}},
      {"norm.bias", {{0.25, 1}, {}}},  {"fc.weight", {{0.5, 0.1f}, {}}}, {"fc.bias", {{0.5, 0.1f}, {}}}};
  EXPECT_EQ(all, expected);
}

TEST(ParameterGroups, RowsAreTheFirstOnesOfAParameter) {
  const auto all = treated({{.pattern = "fc.*", .rows = 1, .lr_scale = 0.1},
                            {.pattern = "fc.*", .rows = 3, .lr_scale = 0.5},
                            {.pattern = "fc.*", .rows = 2, .lr_scale = 9, .may_be_empty = true},  // they have those
                            {.pattern = "fc.bias", .weight_decay = 0},
                            {.pattern = "conv.weight", .rows = 99, .lr_scale = 3}});
  const std::vector<std::pair<std::string, ParameterTreatment>> expected = {
      {"conv.weight", {{0.5, 3}, {}}},
      {"conv.bias", {{0.5, 1}, {}}},
      {"norm.weight", {{0.5, 1}, {}}},
      {"norm.bias", {{0.5, 1}, {}}},
      {"fc.weight", {{0.5, 1}, {{1, {0.5, 0.1f}}, {3, {0.5, 0.5f}}}}},
      {"fc.bias", {{0, 1}, {{1, {0.5, 0.1f}}, {3, {0.5, 0.5f}}}}}};
  EXPECT_EQ(all, expected);
}

TEST(ParameterGroups, PatternsAreGlobs) {
  for (const char* pattern : {"*", "conv.weight", "c*t", "*.w*", "conv?weight", "**weight*", "*o*n*w*g*"})
    EXPECT_EQ(treated({{.pattern = pattern, .lr_scale = 3}}).front().second.lr_scale, 3) << pattern;
  for (const char* pattern : {"", "conv", "onv.weight", "conv.weight?", "Conv*", "*x*"})
    EXPECT_NE(refused({{.pattern = pattern}}), "") << pattern;
}

TEST(ParameterGroups, AGroupWithoutParametersIsRefusedByName) {
  EXPECT_EQ(refused({{.pattern = "*"}, {.pattern = "head.*"}}),
            "optimizer.groups[1] (pattern head.*) matches no parameter of the model, whose parameters are conv.weight, "
            "conv.bias, norm.weight, norm.bias, fc.weight, fc.bias");
  EXPECT_EQ(refused({{.dimensions = 1}, {.pattern = "*.bias", .dimensions = 1}}),
            "optimizer.groups[1] (pattern *.bias, dimensions 1) is empty, because earlier groups match all of its "
            "parameters; put it before them");
  EXPECT_EQ(refused({{.pattern = "fc.*", .rows = 3}, {.pattern = "fc.*", .rows = 2}}),
            "optimizer.groups[1] (pattern fc.*, rows 2) is empty, because earlier groups match all of its parameters; "
            "put it before them");
  EXPECT_NE(refused({{.pattern = "*running_mean"}}), "");  // which is not learnt
  EXPECT_EQ(refused({{.pattern = "*"}, kVectorsDoNotDecay}), "");
}

}  // namespace
}  // namespace ct::optim
