// The definitions of fetch/published.cpp in the program cifar-train-faulty: what a test has written into the file that
// CIFAR_TRAIN_PUBLISHED names, a line for each set: KEY FOLDER SERVER[,SERVER...] NAME:BYTES:DIGITS..., where digits of
// 32 characters are an MD5. FOLDER -: weights.
#include "fetch/published.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ct {
namespace {

std::vector<std::string> parts(const std::string& text, char separator) {
  std::vector<std::string> found;
  std::istringstream rest(text);
  for (std::string part; std::getline(rest, part, separator);) found.push_back(part);
  return found;
}

std::vector<Published> read_table() {
  const char* const name = std::getenv("CIFAR_TRAIN_PUBLISHED");
  std::ifstream file(name == nullptr ? "/dev/null" : name);
  std::vector<Published> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key, folder, servers, text;
    words >> key >> folder >> servers;
    Published set{.key = key, .title = key, .terms = "for tests", .servers = parts(servers, ',')};
    if (folder != "-") set.folder = folder;
    while (words >> text) {
      const std::vector<std::string> fields = parts(text, ':');
      const bool is_md5 = fields.at(2).size() == 32;
      set.files.push_back(
          {fields.at(0), std::stoull(fields.at(1)), is_md5 ? fields.at(2) : "", is_md5 ? "" : fields.at(2)});
    }
    all.push_back(set);
  }
  return all;
}

}  // namespace

std::span<const Published> published() {
  static const std::vector<Published> all = read_table();
  return all;
}

}  // namespace ct
