#include <algorithm>

#include "fetch/published.h"

namespace ct {

static constexpr std::string_view kWeights = "weights:";

const Published* find_published(std::string_view key) {
  const auto found = std::ranges::find(published(), key, &Published::key);
  return found == published().end() ? nullptr : &*found;
}

const Published* published_weights(std::string_view network) {
  return find_published(std::string(kWeights) + std::string(network));
}

std::vector<std::string> published_networks() {
  std::vector<std::string> networks;
  for (const Published& one : published())
    if (one.key.starts_with(kWeights)) networks.push_back(one.key.substr(kWeights.size()));
  return networks;
}

}  // namespace ct
