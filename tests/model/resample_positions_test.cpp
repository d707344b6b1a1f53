// The expected numbers are those of timm 1.0's resample_abs_pos_embed.
#include "model/resample_positions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/models.h"

namespace ct {
namespace {

std::vector<float> embeddings(int64_t numbers) {
  std::vector<float> values;
  for (int64_t i = 0; i < numbers; ++i) values.push_back(static_cast<float>(i * 7919 % 1009) / 1009 - 0.5F);
  return values;
}

TEST(ResamplePositions, GivesWhatTimmDoes) {
  struct Sample {
    int64_t before, width;
    TokenGrid from, to;
    std::vector<float> expected;
  };
  for (const Sample& s :
       {Sample{1,
               2,
               {4, 4},
               {2, 2},
               {-0.5F, 0.3483647F, -0.0406681F, -0.153013F, 0.056712F, 0.0997868F, 0.012434F, 0.049669F, -0.0050005F,
                0.0196329F}},
        Sample{1, 2, {2, 2}, {3, 3}, {-0.5F,       0.3483647F,  0.2609136F,  0.0391607F,  0.0521034F,
                                      -0.1324265F, -0.1567068F, -0.3040138F, -0.1194838F, 0.2617756F,
                                      -0.0081764F, 0.0901883F,  0.103131F,   -0.081399F,  -0.4998814F,
                                      0.4843905F,  -0.0684563F, 0.3128032F,  0.362969F,   0.1412159F}},
        Sample{0,
               1,
               {5, 5},
               {3, 4},
               {-0.3480593F, 0.1551785F, 0.2420789F, 0.0305227F, -0.0568992F, -0.1657262F, -0.2115466F, 0.0788691F,
                0.3625976F, 0.1634832F, -0.0510344F, -0.2348581F}},
        Sample{1,
               1,
               {3, 3},
               {7, 2},
               {-0.5F, 0.3451303F, 0.1358103F, 0.2540152F, 0.0446952F, 0.0106049F, -0.1987151F, -0.1535164F,
                -0.3628364F, 0.0563236F, -0.1529964F, 0.3364589F, 0.1271389F, 0.4439906F, 0.2346706F}}}) {
    const std::vector<float> found =
        resample_positions(embeddings((s.before + s.from.tokens()) * s.width), s.before, s.from, s.to);
    ASSERT_EQ(found.size(), s.expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], s.expected[i], 1e-6) << i;
  }
}

TEST(ResamplePositions, OnTheSameGridChangesNothing) {
  const std::vector<float> values = embeddings(2 + 12);
  EXPECT_EQ(resample_positions(values, 2, {3, 4}, {3, 4}), values);
}

TEST(Positions, LieOnTheGridOfTheTokens) {
  const auto found = [](const Model& model) {
    const Graph graph = build_graph(
        find_model(model),
        {.batch = 1, .height = 32, .width = 48, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = Mode::evaluate});
    const std::optional<Positions> positions = positions_of(graph);
    return positions ? str(graph.parameters()[positions->parameter].name, " ", positions->before, " + ",
                           positions->grid.height, "x", positions->grid.width)
                     : "none";
  };
  EXPECT_EQ(found({.name = "vit"}), "pos_embed 1 + 8x12");
  EXPECT_EQ(found({.name = "vit_tiny"}), "pos_embedding 1 + 8x12");
  EXPECT_EQ(found({.name = "cct"}), "classifier.positional_emb 0 + 16x24");
  EXPECT_EQ(found({.name = "resnet18"}), "none");
}

}  // namespace
}  // namespace ct
