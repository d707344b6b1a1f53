#include "train/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/tensor_differences.h"
#include "comm/all_ranks.h"
#include "model/resample_positions.h"
#include "train/config/validate.h"
#include "train/file_weights.h"

namespace ct {
namespace {

/// Leaves the tensors of a layer out, or the one of that name.
template <class Tensor>
std::vector<Tensor> without(const std::string& layer, std::vector<Tensor> tensors) {
  std::erase_if(tensors, [&](const Tensor& t) { return t.name == layer || t.name.starts_with(layer + "."); });
  return tensors;
}

/// The position embeddings of a file that was made for square pictures of another size.
struct OtherPositions {
  Positions own;
  std::string name;
  TokenGrid theirs;
  std::string pictures;  // "pictures of 224x224 pixels, which are 128x128 here"

  std::string grids() const {
    return str(theirs.height, "x", theirs.width, " tokens to ", own.grid.height, "x", own.grid.width);
  }
};

std::optional<OtherPositions> other_positions(const std::vector<LogicalTensor>& tensors, const Graph& graph) {
  const std::optional<Positions> own = positions_of(graph);
  if (!own) return std::nullopt;
  const Parameter& p = graph.parameters()[own->parameter];
  const LogicalTensor* tensor = find(tensors, p.name);
  if (!tensor || tensor->shape.size() != 3 || tensor->shape[0] != 1 || tensor->shape[2] != p.shape[2]) return {};
  const int64_t tokens = tensor->shape[1] - own->before;
  const auto side = std::llround(std::sqrt(std::max<double>(0, static_cast<double>(tokens))));
  if (tokens < 1 || tokens == own->grid.tokens() || side * side != tokens) return std::nullopt;
  const Shape& images = graph.shape(graph.ports.images);
  return OtherPositions{
      *own,
      p.name,
      {side, side},
      str("pictures of ", side * images[2] / own->grid.height, "x", side * images[3] / own->grid.width,
          " pixels, which are ", images[2], "x", images[3], " here")};
}

/// The patch size of a vision transformer's file, where it is another than the model's: "its patches are 16x16 ...".
std::string other_patch(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted) {
  const std::string name = "patch_embed.proj.weight";
  const auto own = std::ranges::find(wanted, name, &TensorSpec::name);
  const LogicalTensor* theirs = find(tensors, name);
  if (own == wanted.end() || theirs == nullptr || own->shape.size() != 4 || theirs->shape.size() != 4 ||
      own->shape[3] == theirs->shape[3])
    return "";
  return str("its patches are of ", theirs->shape[2], "x", theirs->shape[3], " pixels, which are ", own->shape[2], "x",
             own->shape[3], " here: set model.patch: ", theirs->shape[3]);
}

using LayerNames = std::set<std::string>;

/// The names of all but the last layer.
template <class Named>
LayerNames names_of(const std::vector<Named>& tensors, const std::string& head) {
  LayerNames names;
  for (const Named& t : tensors)
    if (!is_counter(t.name) && !t.name.starts_with(head + ".")) names.insert(t.name);
  return names;
}

/// The model whose tensors have the names of the file's; empty: none, or the one that wants `wanted`.
std::string model_of(const SafetensorsFile& file, const std::vector<TensorSpec>& wanted, const std::string& head) {
  for (const std::string& name : model_names()) {
    const Graph graph = graph_of_any_images({.name = name});
    const std::vector<TensorSpec> specs = weight_specs(graph);
    auto tensors = tensors_of_set(file, evaluated_set(file));
    take_wanted_names(tensors, specs);
    const LayerNames names = names_of(specs, head_of(graph));
    if (names_of(tensors, head_of(graph)) == names) return names == names_of(wanted, head) ? "" : name;
  }
  return "";
}

/// What it means that tensors are not the wanted ones, and what to do.
std::string remedy_of(const SafetensorsFile& file, const std::vector<LogicalTensor>& tensors,
                      const std::vector<TensorSpec>& wanted, const std::string& head,
                      const std::optional<OtherPositions>& other) {
  const auto fit = [&](const auto&... names) {
    auto rest = tensors;
    auto wanted_rest = wanted;
    ((rest = without(names, std::move(rest)), wanted_rest = without(names, std::move(wanted_rest))), ...);
    return tensor_differences(rest, wanted_rest, is_counter).empty();
  };
  if (fit(head)) return "only the last layer differs; --init-head reset initialises it from the seed";
  const std::string resize =
      other ? str("it was made for ", other->pictures, "; --init-resize resamples its positions, ", other->grids())
            : "";
  if (other && fit(other->name)) return resize;
  if (other && fit(head, other->name))
    return resize + ", and --init-head reset initialises the last layer from the seed";
  if (const std::string patch = other_patch(tensors, wanted); !patch.empty()) return patch;
  if (const std::string model = model_of(file, wanted, head); !model.empty())
    return str("its tensors have the names of ", model, "'s, give --model ", model);
  return "it is of another model, give the keys of model that it was made with, such as model.name, model.stem, "
         "model.patch, model.depth or model.dim";
}

/// A tensor's name without the numbers in it, of which there are as many as the network is deep.
std::string pattern_of(std::string_view name) {
  std::string pattern;
  for (const char c : name)
    if (c < '0' || c > '9') pattern += c;
  return pattern;
}

/// Has no model the names of half of the file's tensors?
bool is_of_no_model(const SafetensorsFile& file) {
  for (const std::string& name : model_names()) {
    const std::vector<TensorSpec> specs = weight_specs(graph_of_any_images({.name = name}));
    auto tensors = tensors_of_set(file, evaluated_set(file));
    take_wanted_names(tensors, specs);
    std::set<std::string> patterns;
    for (const TensorSpec& spec : specs) patterns.insert(pattern_of(spec.name));
    const auto known = std::ranges::count_if(tensors, [&](const LogicalTensor& t) {
      const std::string pattern = pattern_of(t.name);  // or what follows a wrapper's prefix in it
      for (size_t at = 0; at != pattern.npos; at = pattern.find('.', at + 1))
        if (patterns.contains(pattern.substr(at == 0 ? 0 : at + 1))) return true;
      return false;
    });
    if (2 * known >= std::ssize(tensors)) return false;
  }
  return true;
}

std::string left_out(const std::string& prefix) { return in_quotes(prefix) + " before all names is left out"; }

/// Refuses what is not finite, and variances below 0.
void require_sound(const LogicalTensor& tensor) {
  const bool variance = tensor.name.ends_with("running_var");
  each_bucket(tensor, 0, rows_of(tensor.shape), [&](int64_t first, std::span<const float> values) {
    const auto good = [&](float x) { return std::isfinite(x) && !(variance && x < 0); };
    const auto bad = std::ranges::find_if_not(values, good);
    if (bad != values.end())
      refuse_element(tensor, first, static_cast<size_t>(bad - values.begin()),
                     str(std::isfinite(*bad) ? "negative, as no variance is (" : "not finite (", *bad, ")"));
  });
}

std::vector<float> resampled(const LogicalTensor& tensor, const OtherPositions& other) {
  std::vector<float> values;
  each_bucket(tensor, 0, rows_of(tensor.shape),
              [&](int64_t, std::span<const float> part) { values.insert(values.end(), part.begin(), part.end()); });
  return resample_positions(values, other.own.before, other.theirs, other.own.grid);
}

}  // namespace

std::string InitOptions::words() const {
  const char* const heads[] = {"", " --init-head reset", " --init-head fit"};
  return str(heads[static_cast<size_t>(head)], resize_positions ? " --init-resize" : "");
}

bool resets_head(const SafetensorsFile& file, const InitOptions& options, const Graph& graph) {
  if (options.head != InitOptions::Head::fit) return options.head == InitOptions::Head::reset;
  auto tensors = tensors_of_set(file, evaluated_set(file));
  const std::vector<TensorSpec> specs = weight_specs(graph);
  take_wanted_names(tensors, specs);
  return std::ranges::any_of(specs, [&, head = head_of(graph) + "."](const TensorSpec& spec) {
    const LogicalTensor* tensor = find(tensors, spec.name);
    return spec.name.starts_with(head) && (tensor == nullptr || tensor->shape != spec.shape);
  });
}

namespace {

/// What a file gives to a model.
struct Given {
  std::vector<LogicalTensor> tensors;
  std::vector<TensorSpec> wanted;  // of them
  std::string prefix;              // before all names in the file
  bool new_head = false;
  std::optional<OtherPositions> resampled;
};

/// Error(checkpoint) with all differences.
Given given_by(const SafetensorsFile& file, const InitOptions& options, const Graph& graph) {
  Given given;
  const std::string head = head_of(graph);
  auto& [tensors, wanted, prefix, new_head, positions] = given;
  tensors = tensors_of_set(file, evaluated_set(file));
  prefix = take_wanted_names(tensors, weight_specs(graph));
  new_head = resets_head(file, options, graph);
  if (new_head) tensors = without(head, std::move(tensors));
  wanted = wanted_weights(tensors, graph, file.path());
  if (new_head) wanted = without(head, std::move(wanted));
  const std::optional<OtherPositions> other = other_positions(tensors, graph);
  if (options.resize_positions) positions = other;
  const auto rest = positions ? without(other->name, tensors) : tensors;
  const auto wanted_rest = positions ? without(other->name, wanted) : wanted;
  if (const std::string differences = tensor_differences(rest, wanted_rest, is_counter); !differences.empty()) {
    if (is_of_no_model(file) && !tensors.empty())
      fail(ExitCode::checkpoint, in_quotes(file.path().native()), ": its ",
           counted(static_cast<int64_t>(tensors.size()), "tensor"), ", such as ", in_quotes(tensors.front().name),
           ", are of another network: no model here has these names; give weights of ", joined(model_names(), ", "));
    refuse_tensors(file.path(), (prefix.empty() ? "" : left_out(prefix) + "; ") + differences,
                   remedy_of(file, rest, wanted_rest, head, other));
  }
  if (wanted.empty())
    fail(ExitCode::checkpoint, in_quotes(file.path().native()),
         ": none of its tensors is loaded, because this network's only layer, ", head,
         ", is initialised from the seed: give weights whose ", head, " has this network's shape");
  return given;
}

}  // namespace

void require_fitting_weights(const SafetensorsFile& file, const InitOptions& options, const Graph& graph) {
  given_by(file, options, graph);
}

std::vector<std::string> load_initial_weights(const SafetensorsFile& file, const InitOptions& options,
                                              const Graph& graph, const FlatLayout& flat, const StateBuffer& weights) {
  Given given = given_by(file, options, graph);
  for (const LogicalTensor& tensor : given.tensors)
    if (!is_counter(tensor.name)) require_sound(tensor);
  std::vector<std::string> done;
  if (!given.prefix.empty()) done.push_back(left_out(given.prefix));
  std::vector<float> positions;
  if (const auto& other = given.resampled) {
    positions = resampled(*find(given.tensors, other->name), *other);
    done.push_back(
        str(in_quotes(other->name), " is resampled, ", other->grids(), ": it was made for ", other->pictures));
    given.tensors = without(other->name, std::move(given.tensors));
    given.wanted = without(other->name, std::move(given.wanted));
  }
  load_rows(given.tensors, graph, flat, weights, name_of_parameter);
  if (!positions.empty())
    write_weights(graph, flat, weights, [&](size_t parameter) {
      return parameter == given.resampled->own.parameter ? std::span<const float>(positions) : std::span<const float>();
    });
  done.push_back(
      str(given.wanted.size(), " tensors are loaded from ", in_quotes(file.path().native()),
          given.new_head ? str("; the last layer, ", head_of(graph), ", is initialised from the seed") : ""));
  return done;
}

std::vector<std::string> load_initial_weights(const Path& path, const InitOptions& options, TrainingSession& session,
                                              const std::function<void(const std::string&)>& warn) {
  bool new_head = false;
  const auto file_of = [&] { return SafetensorsFile(weights_file(path), SafetensorsFile::Check::header); };
  run_on_all_ranks(session.comm(), [&] { new_head = resets_head(file_of(), options, session.graph()); });
  if (new_head) session.initialize_head();
  std::vector<std::string> notes;
  run_on_all_ranks(session.comm(), [&] {
    const SafetensorsFile file = file_of();
    if (const std::string other = other_model_keys(file, session.config().model); warn && !other.empty())
      warn(str(options.option, ": these weights are of another network: ", other));
    if (evaluated_set(file) == WeightSet::ema)
      notes.emplace_back("the moving average of the weights, as its run evaluated (export --no-ema gives the weights)");
    const auto done =
        load_initial_weights(file, options, session.graph(), session.program().flat, session.engine().state().front());
    notes.insert(notes.end(), done.begin(), done.end());
    if (const std::string converted = conversions(file); !converted.empty()) notes.push_back(converted);
  });
  session.engine().state_written();
  for (std::string& note : notes) note = str(options.option, ": ", note);
  return notes;
}

}  // namespace ct
