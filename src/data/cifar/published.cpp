#include "data/cifar/published.h"

#include "data/cifar/cifar_set.h"

namespace ct {

std::string note_of_published(std::span<const std::string> sha1) {
  std::vector<std::string> names = batch_files(Split::train);
  names.push_back(batch_files(Split::test).front());
  std::string others;
  bool all = true;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool other = !sha1[i].empty() && sha1[i] != kCifarSha1[i];
    if (other) others += str(others.empty() ? "" : ", ", names[i]);
    all = all && other;
  }
  if (others.empty()) return "";
  if (all) return str("not the published files of ", kCifarName, " but another encoding or order of its images");
  return str(others, ": not as published, though other files are: damaged, unless somebody changed that; ",
             data_remedy(/*synthetic=*/false));
}

}  // namespace ct
