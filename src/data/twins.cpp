#include "data/twins.h"

#include <algorithm>

namespace ct {

void name_twins(std::vector<FileReport>& files) {
  for (auto file = files.begin(); file != files.end(); ++file) {
    if (file->sha256.empty() || !file->problem.empty()) continue;
    const auto first = std::ranges::find(files.begin(), file, file->sha256, &FileReport::sha256);
    if (first != file) file->problem = str("the same bytes as ", first->path.filename().string());
  }
}

}  // namespace ct
