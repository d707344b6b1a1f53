// `data fetch`: published data sets and weights
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/pretrained.h"
#include "cli/subverbs.h"
#include "fetch/fetch.h"
#include "metrics/console.h"

namespace ct {

int data_fetch(const Words& words) {
  CLI::App app(
      str("Downloads a published data set or pretrained weights, verified by their published checksum. What is "
          "there already is verified, and nothing is downloaded. A download that was cut goes on where it "
          "stopped. Proxies and certificates are those of the environment: https_proxy, http_proxy, "
          "all_proxy, no_proxy; CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR."),
      "cifar-train data fetch");
  std::string name, out = "data";
  DownloadOptions options = download_options();
  int stall = static_cast<int>(options.stall.count());
  bool quiet = false;
  std::vector<std::string> mirrors;
  app.add_option("NAME", name, joined(published(), " | ", &Published::key))->required();
  CLI::Option* const to = app.add_option("--out", out, "the folder that gets a data set's folder: data.path")
                              ->type_name("FOLDER")
                              ->capture_default_str();
  app.add_option("--mirror", mirrors,
                 str("the address of a folder that has the published files, instead of the published addresses; "
                     "given several times, they are tried in their order (default: ",
                     kMirrorVariable, ", addresses between blanks)"))
      ->check(mirror_problem)
      ->allow_extra_args(false);
  app.add_option("--stall", stall, "end a request after so many seconds with less than 1000 bytes in each")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_flag("-q,--quiet", quiet, "print the result, errors and warnings only");
  if (!parse(app, words)) return 0;

  const Published* const what = find_published(name);
  if (what == nullptr)
    fail(ExitCode::usage, in_quotes(name), ": not a published set; give one of ",
         joined(published(), ", ", &Published::key));
  if (what->folder.empty() && to->count() > 0)
    fail(ExitCode::usage, "--out is for data sets; weights are kept in ", cache_folder().string(),
         ", which XDG_CACHE_HOME moves");
  if (out.empty()) fail(ExitCode::usage, "--out '' names no folder: give the path of one");
  if (!mirrors.empty()) options.mirrors = mirrors;
  options.stall = std::chrono::seconds(stall);
  Console console(true, quiet ? Verbosity::quiet : Verbosity::normal);
  FileSystem files;
  const bool is_weights = what->folder.empty();
  const Path path = is_weights ? fetch_weights(files, *what, options, console, /*says_found=*/true)
                               : fetch_set(files, *what, out, options, console);
  console.data(path.string());
  return 0;
}

}  // namespace ct
