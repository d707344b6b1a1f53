#include "model/models.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "base/text.h"

namespace ct {
namespace {
/// Channels, height and width of images.
using ImageShape = std::array<int64_t, 3>;
constexpr ImageShape kTutorialShape = {3, 32, 32};

struct Entry {
  std::string_view name;
  std::optional<ImageShape> takes = {};  // absent: any shape
  std::function<Builder(const Model&)> builder;
  std::function<std::vector<ConfigKey>(Model&)> keys = [](Model&) { return std::vector<ConfigKey>(); };
  std::function<std::optional<ConfigFault>(const Model&)> fault = [](const Model&) { return std::nullopt; };
  std::function<int64_t(const Model&)> patch = [](const Model&) { return 1; };  // of which images are made

  Entry(std::string_view n, ValueId (*build)(Graph&, ValueId, int), std::optional<ImageShape> shape = {})
      : name(n), takes(shape), builder([build](const Model&) { return build; }) {}
  /// A model with keys of its own, which are that member of a Model.
  template <class Keys>
  Entry(std::string_view n, ValueId (*build)(Graph&, ValueId, int, const Keys&), Keys Model::*own,
        std::optional<ImageShape> shape = {})
      : name(n),
        takes(shape),
        builder([=](const Model& model) {
          return [build, values = model.*own](Graph& g, ValueId images, int classes) {
            return build(g, images, classes, values);
          };
        }),
        keys([own](Model& model) { return (model.*own).keys(); }) {
    if constexpr (requires(Keys k) { k.fault(); }) fault = [own](const Model& model) { return (model.*own).fault(); };
    if constexpr (requires(Keys k) { k.patch; }) patch = [own](const Model& model) { return (model.*own).patch; };
  }
};
const Entry kModels[] = {{"cnn", cnn, kTutorialShape},
                         {"cnn_plain", cnn_plain, kTutorialShape},
                         {"cnn_moe", cnn_moe, &Model::cnn_moe, kTutorialShape},
                         {"linear", linear_model},
                         {"resnet9", resnet9, &Model::resnet9},
                         {"airbench", airbench, &Model::airbench},
                         {"resnet18", resnet18, &Model::resnet},
                         {"resnet34", resnet34, &Model::resnet},
                         {"resnet50", resnet50, &Model::resnet},
                         {"resnet101", resnet101, &Model::resnet},
                         {"resnet152", resnet152, &Model::resnet},
                         {"vit_tiny", vit_tiny, &Model::vit_tiny},
                         {"vit", vit, &Model::vit},
                         {"cct", cct, &Model::cct}};

const Entry* find_entry(std::string_view name) {
  const auto* found = std::ranges::find(kModels, name, &Entry::name);
  return found == std::end(kModels) ? nullptr : found;
}

std::string text_of(const ImageShape& s) { return str(s[0], "x", s[1], "x", s[2]); }

double draw(Random& random, const Init& init) {
  switch (init.kind) {
    case Init::uniform:
      return (2 * random.uniform() - 1) * init.spread;
    case Init::normal:
      return random.normal() * init.spread;
    case Init::constant:
      break;
  }
  return init.spread;
}
/// The first filters of [out][in][kernel][kernel] as identities.
void pass_on(const std::vector<int64_t>& shape, std::span<float> values) {
  const int64_t square = shape[2] * shape[3], filter = shape[1] * square;
  for (int64_t k = 0; k < std::min(shape[0], shape[1]); ++k) {
    std::ranges::fill(values.subspan(static_cast<size_t>(k * filter), static_cast<size_t>(filter)), 0.0F);
    values[static_cast<size_t>(k * filter + k * square + square / 2)] = 1;
  }
}
}  // namespace

std::vector<ConfigKey> Model::keys() {
  const Entry* entry = find_entry(name);
  return entry ? entry->keys(*this) : std::vector<ConfigKey>();
}

std::optional<ConfigFault> Model::fault() const {
  const Entry* entry = find_entry(name);
  return entry ? entry->fault(*this) : std::nullopt;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& e : kModels) names.emplace_back(e.name);
  return names;
}

Builder find_model(const Model& model) {
  if (const Entry* entry = find_entry(model.name)) return entry->builder(model);
  fail(ExitCode::usage, "model.name: no model is called ", in_quotes(model.name), "; there are ",
       joined(kModels, ", ", &Entry::name));
}

void require_fitting(const Model& model, int64_t channels, int64_t height, int64_t width) {
  const ImageShape images{channels, height, width};
  const Entry* entry = find_entry(model.name);
  check(entry != nullptr, "no model is called ", model.name);
  if (entry->takes && *entry->takes != images) {
    std::string others;
    for (const Entry& e : kModels)
      if (!e.takes) others += (others.empty() ? "" : " or ") + std::string(e.name);
    fail(ExitCode::usage, "model.name: ", model.name, " takes images of ", text_of(*entry->takes),
         ", those of the data set are ", text_of(images), "; use ", others, ", or another data.dataset");
  }
  const int64_t patch = entry->patch(model), both = std::gcd(height, width);
  if (both % patch == 0) return;
  int64_t instead = std::min(patch, both);
  while (both % instead != 0) --instead;
  fail(ExitCode::usage, "model.patch: ", patch, " does not divide the sides of the data set's images, ",
       text_of(images), "; use ", instead);
}

int64_t some_side(const Model& model) {
  const Entry* entry = find_entry(model.name);
  return round_up(32, entry ? entry->patch(model) : 1);
}

std::vector<float> initial_values(const Graph& graph, size_t parameter, uint64_t seed) {
  const Parameter& p = graph.parameters()[parameter];
  Random random(seed, Purpose::init, p.begins_as < 0 ? parameter : static_cast<size_t>(p.begins_as));
  std::vector<float> values(static_cast<size_t>(p.layout.numel()));
  for (float& v : values) v = static_cast<float>(draw(random, p.init));
  if (p.init.dirac) pass_on(p.shape, values);
  return values;
}

}  // namespace ct
