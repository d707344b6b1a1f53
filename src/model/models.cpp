#include "model/models.h"

#include "base/error.h"
#include "base/random.h"

namespace ct {
namespace {
struct Entry {
  std::string_view name;
  Builder build;
};
const Entry kModels[] = {{"cnn", cnn}, {"cnn_plain", cnn_plain}, {"linear", linear_model}};
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

void initialize(const Graph& graph, const FlatLayout& flat, uint64_t seed, std::span<float> params) {
  std::vector<float> values;
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    Random random(seed, Purpose::init, i);
    values.resize(static_cast<size_t>(p.layout.numel()));
    for (float& v : values) v = static_cast<float>((2 * random.uniform() - 1) * p.init_bound);
    const Range& r = flat.parameters[i];
    p.layout.from_torch(values, params.subspan(static_cast<size_t>(r.begin), static_cast<size_t>(r.size())));
  }
}

}  // namespace ct
