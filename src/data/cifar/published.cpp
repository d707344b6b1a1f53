#include "data/cifar/published.h"

#include "data/cifar/cifar_set.h"

namespace ct {

std::string note_of_published(std::span<const std::string> sha1) {
  std::vector<std::string> names = batch_files(Split::train);
  names.push_back(batch_files(Split::test).front());
  std::string others;
  bool some = false;
  for (size_t i = 0; i < names.size(); ++i) {
    if (sha1[i] == kCifarSha1[i])
      some = true;
    else if (!sha1[i].empty())
      others += str(others.empty() ? "" : ", ", names[i]);
  }
  if (others.empty()) return "";
  if (!some)
    return str("no file has the sum of a published one of ", kCifarName,
               ": its images in another encoding or order, changed ones, or others");
  return str(others, ": not as published, though other files are: damaged, unless somebody changed that; ",
             data_remedy(/*synthetic=*/false));
}

}  // namespace ct
