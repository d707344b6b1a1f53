#include "data/kinds.h"

#include "data/cifar/cifar_kind.h"
#include "data/image_folder/image_folder_kind.h"
#include "data/mnist/mnist_kind.h"
#include "data/packed/packed_kind.h"
#include "data/synthetic/synthetic_kind.h"

namespace ct {

std::span<const DataKind> data_kinds() {
  static const DataKind kinds[] = {cifar_kind(), mnist_kind(), packed_kind(), image_folder_kind(), synthetic_kind()};
  return kinds;
}

const DataKind* find_kind(std::string_view key_or_name, std::span<const DataKind> kinds) {
  for (const DataKind& kind : kinds)
    if (kind.key == key_or_name || kind.name == key_or_name) return &kind;
  return nullptr;
}

std::string shown_folder(const DataKind& kind) {
  const bool as_it_is = !kind.suffix.empty() || kind.folder.ends_with('/');
  return std::string(kind.folder) + (as_it_is ? "" : "/");
}

std::vector<std::string> dataset_choices() {
  std::vector<std::string> choices = {"auto"};
  for (const DataKind& kind : data_kinds()) choices.emplace_back(kind.key);
  return choices;
}

}  // namespace ct
