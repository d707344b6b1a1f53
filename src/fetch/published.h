// The files that `data fetch` and --pretrained download: the only place of their addresses and checksums.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

struct PublishedFile {
  std::string name;  // the last part of its address
  uint64_t bytes = 0;
  std::string md5, sha256;  // lower-case digits; one of the two, the other is empty
};

struct Published {
  std::string key;                   // "cifar10", "weights:resnet18"
  std::string title;                 // "CIFAR-10"
  std::string terms;                 // one line: licence, or what stands in its place
  std::vector<std::string> servers;  // addresses of folders with the files, each ending in /, tried in this order
  std::vector<PublishedFile> files;
  // Of a data set: its folder in data.path. One file is a tar archive with this folder, several are gzipped members of
  // it. Empty: one file of weights, which is kept as it is.
  std::string folder;
};

/// In the order of help texts.
std::span<const Published> published();

/// Null: there is none.
const Published* find_published(std::string_view key);
/// The weights of that network, "resnet18". Null: there are none.
const Published* published_weights(std::string_view network);
/// The networks that have some: "resnet18".
std::vector<std::string> published_networks();

}  // namespace ct
