#include "cli/data_options.h"

#include <CLI/CLI.hpp>

#include "data/locate.h"
#include "data/unread_layout.h"

namespace ct {

void DataOptions::add_to(CLI::App& app) {
  app.add_option("--data,--path", path, "folder of the data sets, or of one data set")
      ->type_name("FOLDER")
      ->capture_default_str();
  app.add_option("--dataset", dataset,
                 "the kind of data set (data.dataset); auto: the one that a run takes, else the first one found")
      ->check(CLI::IsMember(dataset_choices()))
      ->capture_default_str();
}

DataSource DataOptions::source() const {
  require_named_folder(path, dataset);
  const DataKind& synthetic = data_kinds().back();  // which a run makes where it finds nothing else
  if (dataset == "auto")
    if (auto found = find_data(dataset, path); found && found->kind != &synthetic) return *std::move(found);
  std::string missing, remedies;
  for (const DataKind& kind : data_kinds()) {
    if (dataset != "auto" && dataset != kind.key) continue;
    if (auto found = find_data(kind.key, path)) return *std::move(found);
    missing += str(missing.empty() ? "" : " or ", shown_folder(kind));
    remedies = str("; for ", kind.name, ", ", kind.how_to_get(path), remedies);  // what is at hand comes first
  }
  if (const std::string layout = unread_layout(path, find_kind(dataset)); !layout.empty()) fail(ExitCode::data, layout);
  fail(ExitCode::data, path, ": no ", missing, remedies);
}

}  // namespace ct
