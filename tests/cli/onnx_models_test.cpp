// Every model of the program as ONNX.
#include "model/models.h"
#include "onnx/read_model.h"
#include "train/evaluation.h"

namespace ct {
namespace {

/// A model with that name whose transformers are small.
Model small_model(const std::string& name) {
  Model model{.name = name};
  model.vit.depth = model.vit_tiny.depth = model.cct.depth = 2;
  return model;
}

Graph evaluation(const Model& model, int64_t side) {
  return build_graph(
      find_model(model),
      {.batch = 1, .height = side, .width = side, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = Mode::evaluate});
}

TEST(OnnxModels, AllButMixturesOfExpertsAreExported) {
  for (const std::string& name : model_names()) {
    SCOPED_TRACE(name);
    const Graph graph = evaluation(small_model(name), 32);
    const onnx::ModelOptions options{.name = name, .views = views_of(EvalViews::plain)};
    if (name == "cnn_moe") {
      EXPECT_THROW(onnx::model_of(graph, options), Error);
      continue;
    }
    const onnx::ReadModel model = onnx::model_of(graph, options);
    onnx::expect_sound(model);
    for (const Parameter& p : graph.parameters()) EXPECT_EQ(model.tensors.at(p.name).shape, p.shape) << p.name;
  }
}

TEST(OnnxModels, LargePicturesAndAllViews) {
  for (const std::string name : {"resnet50", "vit", "cct", "airbench"})
    for (const EvalViews views : {EvalViews::mirrored, EvalViews::shifted}) {
      SCOPED_TRACE(name);
      onnx::expect_sound(onnx::model_of(evaluation(small_model(name), 96), {.views = views_of(views)}));
    }
}

}  // namespace
}  // namespace ct
