#include "cli/pretrained.h"

#include <cstdlib>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/ranks.h"
#include "fetch/address.h"
#include "fetch/fetch.h"
#include "metrics/console.h"

namespace ct {

std::string mirror_problem(const std::string& address) {
  static const std::regex kAddress(
      R"(https?://([^/?#\s]*@)?(\[[0-9a-f:.]+\]|[^/?#@:\[\]\s]+)(:([0-9]{1,5}))?(/[^?#\s]*)?)", std::regex::icase);
  constexpr int kPort = 4, kLastPort = 65535;
  constexpr size_t kLongest = 2000;  // for a longer one the search would need too much of the stack
  std::smatch parts;
  const bool is_address = address.size() <= kLongest && std::regex_match(address, parts, kAddress) &&
                          (!parts[kPort].matched || std::stoi(parts[kPort]) <= kLastPort);
  return is_address ? ""
                    : in_quotes(without_password(address)) +
                          " is not the address of a folder: give one such as https://HOST/FOLDER";
}

DownloadOptions download_options() {
  DownloadOptions options;
  const char* const mirrors = std::getenv(kMirrorVariable);
  std::istringstream words(mirrors == nullptr ? "" : mirrors);
  for (std::string mirror; words >> mirror;) {
    if (const std::string problem = mirror_problem(mirror); !problem.empty())
      fail(ExitCode::usage, kMirrorVariable, ": ", problem);
    options.mirrors.push_back(mirror);
  }
  return options;
}

std::string file_of_weights(const std::string& file) {
  const Published* const weights = published_weights(file);
  if (weights == nullptr) {
    const bool is_word = !file.empty() && Path(file).filename() == file && !Path(file).has_extension();
    if (is_word && !is_there(file, ExitCode::checkpoint))
      fail(ExitCode::usage, in_quotes(file), ": there is no such file: check the path, or give the name of published ",
           "weights: ", joined(published_networks(), ", "));
    return file;
  }
  DownloadOptions options = download_options();
  options.tells_waiting = launch_rank() == 0;
  Console console(true, Verbosity::normal);
  FileSystem files;
  return fetch_weights(files, *weights, options, console).string();
}

}  // namespace ct
