#include "cli/export/onnx.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/store.h"
#include "checkpoint/tensor_differences.h"
#include "checkpoint/weights_hash.h"
#include "cli/export/python_sample.h"
#include "cli/picture_transform.h"
#include "model/models.h"
#include "onnx/model.h"
#include "train/evaluation.h"
#include "train/file_weights.h"
#include "train/run/run_files.h"
#include "train/setup.h"

namespace ct {
namespace {

/// The graph of an evaluation in f32, whose parameters `weights` must have.
Graph evaluation_graph(const WeightsInfo& info, const ExportedWeights& weights) {
  Config config;
  config.data.mean = info.mean;
  config.data.std = info.std;
  const DataSpec spec{.sample = info.sample, .classes = static_cast<int>(info.class_names.size())};
  require_fitting(info.model, info.sample.channels, info.sample.height, info.sample.width);
  Graph graph = build_graph(find_model(info.model), input_spec(config, /*batch=*/1, spec, Mode::evaluate));
  const SafetensorsFile& file = weights.file();
  const auto tensors = tensors_of_set(file, weights.set());
  require_tensors(tensors, wanted_weights(tensors, graph, file.path()), file.path(), is_counter);
  return graph;
}

/// The name of the run whose weights these are, or if no run is around them, of their file.
std::string run_name(const Path& weights) {
  const Path at = absolute_of(weights), folder = at.parent_path();
  if (holds_run(folder)) return folder.filename();
  const Path above = step_of(folder.filename().native()) ? folder.parent_path().parent_path() : folder.parent_path();
  return holds_run(above) ? above.filename() : at.stem();
}

/// For programs: all values but the names of run and data set, and the hash, are JSON.
std::map<std::string, std::string> metadata_of(const WeightsInfo& info, const PictureTransform& transform,
                                               EvalViews views, const ExportedWeights& weights,
                                               const std::vector<TensorView>& tensors) {
  using Json = nlohmann::ordered_json;
  const SampleShape& sample = info.sample;
  return {
      {"class_names", Json(info.class_names).dump()},
      {"input_size", Json{{"height", sample.height}, {"width", sample.width}, {"channels", sample.channels}}.dump()},
      {"resize", Json{{"shorter_side", transform.resize},
                      {"filter", "bilinear, antialiased"},
                      {"crop", transform.size},
                      {"mode", transform.grey ? "L" : "RGB"}}
                     .dump()},
      {"model", weights.file().metadata().at("cifar_train.model")},
      {"views", Json(word_of(views)).dump()},
      {"dataset", printable(info.dataset)},
      {"run", printable(run_name(weights.file().path()))},
      {"weights_sha256", weights_sha256(tensors)}};
}

std::string documentation(const WeightsInfo& info, const PictureTransform& t, bool raw) {
  const std::string_view colours = t.grey ? "grey" : "red, green, blue";
  return str("Classifies images: ", info.model.name, ", trained by cifar-train on ", printable(info.dataset),
             ". Input: pixels (", colours, "), 0 to 255, of pictures whose shorter side was resized to ", t.resize,
             " pixels (bilinear, antialiased) and of which the central ", t.size, " x ", t.size,
             " pixels were cut out; the model normalises them itself. Output: ", raw ? "logits" : "probabilities",
             " of the classes that the metadata class_names lists.");
}

onnx::Model model_of(const Graph& graph, const onnx::ModelOptions& options, const std::string& checkpoint) {
  try {
    return {graph, options};
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    fail(error.code(), in_quotes(checkpoint), ", model ", options.name, ": ", error.what());
  }
}

/// The elements of the graph's parameters.
onnx::ParameterBytes elements_of(const Graph& graph, const std::vector<TensorView>& tensors) {
  std::map<std::string_view, std::span<const std::byte>> by_name;
  for (const TensorView& tensor : tensors) by_name[tensor.name] = tensor.data;
  std::vector<std::span<const std::byte>> elements;
  for (const Parameter& p : graph.parameters()) elements.push_back(by_name.at(p.name));
  return [elements = std::move(elements)](size_t parameter) { return elements[parameter]; };
}

}  // namespace

OnnxWritten write_onnx(ExportedWeights& weights, const OnnxExport& options) {
  const WeightsInfo info = info_of(weights.file());
  if (info.class_names.empty())
    fail(ExitCode::checkpoint, in_quotes(options.checkpoint), " names no classes; use a file of a run's folder");
  const bool to_file = kind_of(options.out) != PathKind::other;
  const std::string sample = options.out + ".py";
  require_replaceable(options.out, onnx::is_own_model);
  if (to_file) require_replaceable(sample, is_python_sample);

  const PictureTransform transform = transform_of(info, options.checkpoint);
  const Graph graph = evaluation_graph(info, weights);
  const EvalViews views = of_word(options.views, info.eval_views);
  const std::vector<TensorView> tensors = weights.tensors();
  const onnx::Model model = model_of(graph,
                                     {.name = info.model.name,
                                      .doc = documentation(info, transform, options.raw),
                                      .metadata = metadata_of(info, transform, views, weights, tensors),
                                      .views = views_of(views),
                                      .raw = options.raw},
                                     options.checkpoint);
  FileSystem files;
  weights.write([&](const auto& still_whole) {
    write_file_atomic(files, options.out, [&](File& file) {
      model.write(elements_of(graph, tensors), [&](std::span<const std::byte> bytes) { file.write(bytes); });
      still_whole();
    });
  });
  if (to_file) write_file_atomic(files, sample, python_sample());
  const auto& [channels, height, width] = info.sample;
  return {str(info.model.name, ", u8 images [batch][", height, "][", width, "][", channels, "] to ",
              options.raw ? onnx::kLogits : onnx::kProbabilities, " of ", info.class_names.size(), " classes"),
          to_file ? sample : ""};
}

}  // namespace ct
