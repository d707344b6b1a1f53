#include "model/models.h"

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/random.h"

namespace ct {
namespace {
struct Entry {
  std::string_view name;
  Builder build;
};
const Entry kModels[] = {{"cnn", cnn}, {"cnn_plain", cnn_plain}, {"linear", linear_model}, {"resnet18", resnet18}};

double draw(Random& random, const Init& init) {
  switch (init.kind) {
    case Init::uniform:
      return (2 * random.uniform() - 1) * init.spread;
    case Init::normal: {  // Box & Muller, 1958; 1 - u keeps the logarithm from zero
      const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
      return radius * std::cos(2 * std::numbers::pi * random.uniform()) * init.spread;
    }
    case Init::constant:
      break;
  }
  return init.spread;
}
}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& e : kModels) names.emplace_back(e.name);
  return names;
}

Builder find_model(std::string_view name) {
  std::string known;
  for (const Entry& e : kModels) {
    if (e.name == name) return e.build;
    known += (known.empty() ? "" : ", ") + std::string(e.name);
  }
  fail(ExitCode::usage, "model.name: no model is called '", name, "'; there are ", known);
}

std::vector<float> initial_values(const Graph& graph, size_t parameter, uint64_t seed) {
  const Parameter& p = graph.parameters()[parameter];
  Random random(seed, Purpose::init, parameter);
  std::vector<float> values(static_cast<size_t>(p.layout.numel()));
  for (float& v : values) v = static_cast<float>(draw(random, p.init));
  return values;
}

}  // namespace ct
