#include "train/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "checkpoint/tensor_differences.h"
#include "model/resample_positions.h"
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

/// What it means that tensors are not the wanted ones, and what to do.
std::string remedy_of(const std::vector<LogicalTensor>& tensors, const std::vector<TensorSpec>& wanted,
                      const std::string& head, const std::optional<OtherPositions>& other) {
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
  return "it is of another model, give the keys of model that it was made with, such as model.name, model.stem, "
         "model.patch, model.depth or model.dim";
}

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

std::vector<std::string> load_initial_weights(const SafetensorsFile& file, const InitOptions& options,
                                              const Graph& graph, const FlatLayout& flat, const StateBuffer& weights) {
  std::vector<std::string> done;
  const std::string head = head_of(graph);
  auto tensors = tensors_of_set(file, evaluated_set(file));
  const std::string prefix = take_wanted_names(tensors, weight_specs(graph));
  if (!prefix.empty()) done.push_back(in_quotes(prefix) + " before all names is left out");
  const bool new_head = resets_head(file, options, graph);
  if (new_head) tensors = without(head, std::move(tensors));
  std::vector<TensorSpec> wanted = wanted_weights(tensors, graph, file.path());
  if (new_head) wanted = without(head, std::move(wanted));
  const std::optional<OtherPositions> other = other_positions(tensors, graph);
  std::vector<float> positions;
  if (other && options.resize_positions) {
    const LogicalTensor& tensor = *find(tensors, other->name);
    require_sound(tensor);
    positions = resampled(tensor, *other);
    done.push_back(
        str(in_quotes(other->name), " is resampled, ", other->grids(), ": it was made for ", other->pictures));
    tensors = without(other->name, std::move(tensors));
    wanted = without(other->name, std::move(wanted));
  }
  if (const std::string differences = tensor_differences(tensors, wanted, is_counter); !differences.empty())
    refuse_tensors(file.path(), (prefix.empty() ? "" : done.front() + "; ") + differences,
                   remedy_of(tensors, wanted, head, other));
  for (const TensorSpec& spec : wanted) require_sound(*find(tensors, spec.name));
  load_rows(tensors, graph, flat, weights, name_of_parameter);
  if (!positions.empty())
    write_weights(graph, flat, weights, [&](size_t parameter) {
      return parameter == other->own.parameter ? std::span<const float>(positions) : std::span<const float>();
    });
  done.push_back(str(wanted.size(), " tensors are loaded from ", in_quotes(file.path().native()),
                     new_head ? str("; the last layer, ", head, ", is initialised from the seed") : ""));
  return done;
}

}  // namespace ct
