// `data info`: what a data set has, and how a configuration normalises it
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/config_lookup.h"
#include "cli/data_options.h"
#include "cli/sample_sheet.h"
#include "cli/subverbs.h"
#include "data/description.h"
#include "data/locate.h"
#include "metrics/png.h"
#include "train/config/load.h"
#include "train/run/run_files.h"
#include "train/setup.h"

namespace ct {
namespace {

using Json = nlohmann::ordered_json;

struct DescribedPart {
  const char* name;
  Split split;
  std::unique_ptr<DataSet> set;
  std::vector<int64_t> counts;  // of each class
};

/// A data set with all images that it has of its own; the part to train on comes first.
struct Described {
  DataSource source;
  std::vector<DescribedPart> parts;
  const DataSet& train() const { return *parts.front().set; }
};

bool is_config(const Path& name) {
  return name.extension() == ".yaml" || name.extension() == ".yml" || name.extension() == ".json";
}

/// The set of a configuration, with its labels and its size of pictures.
std::pair<DataSource, OpenOptions> set_of_config(const std::string& name) {
  std::vector<std::string> warnings;
  const Config config = load_config({.files = {locate_config(name, /*option=*/"")}}, &warnings);
  for (const std::string& line : warnings) warn(line);
  LocateOptions where = split_folders(config);
  where.if_absent = IfAbsent::keep_in_memory;
  DataSource source = locate_data(config.data.dataset, config.data.path, where);
  OpenOptions opening = open_options(config, *source.kind);
  opening.pictures.crop = {};
  return {std::move(source), opening};
}

Described open_parts(DataSource source, OpenOptions opening) {
  // Of pictures, damage shows when they are decoded: `data verify` does that.
  opening.on_corrupt = source.kind->pictures ? OnCorrupt::skip : OnCorrupt::error;
  opening.threads = 0;
  Described described{.source = std::move(source)};
  const auto add = [&](const char* name, Split split) {
    auto set = described.source.kind->open(described.source, split, opening);
    std::vector<int64_t> counts = class_counts(*set);
    described.parts.push_back({name, split, std::move(set), std::move(counts)});
  };
  // The only split besides train/ is the one to test on.
  const bool has_val = has_split(described.source, Split::val), has_test = has_split(described.source, Split::test);
  add("train", Split::train);
  if (has_val && has_test) add("val", Split::val);
  if (has_val || has_test) add("test", Split::test);
  return described;
}

std::string list_text(const std::vector<double>& values) { return fmt::format("[{:.4f}]", fmt::join(values, ", ")); }

std::string text_of(const Described& described) {
  const DataSet& train = described.train();
  const auto& [channels, height, width] = train.shape();
  std::string text = str(train.name(), " in ",
                         described.source.folder.empty() ? "memory" : printable(described.source.folder.native()), "\n",
                         counted(train.count(), "image"), " to train on, ");
  for (const DescribedPart& part : described.parts)
    if (part.split != Split::train)
      text += str(part.set->count(), part.split == Split::val ? " to validate on, " : " to test on, ");
  if (described.parts.size() == 1) text += "of which a part is held out, ";
  text += str(width, "x", height, ", ", counted(channels, "channel"), ", ", train.classes(), " classes\n");
  if (const auto sizes = picture_sizes(train))
    text += str("pictures of ", sizes->smallest.width, "x", sizes->smallest.height, " to ", sizes->largest.width, "x",
                sizes->largest.height, " pixels",
                sizes->pictures < train.count() ? str(" among ", sizes->pictures) : "", "\n");
  for (const DescribedPart& part : described.parts)
    for (const std::string& line : notes_of(*part.set, part.split)) text += printable(line) + "\n";
  int columns = 16;
  for (const std::string& name : train.class_names()) columns = std::max(columns, columns_of(printable(name)));
  const auto row = [&](const std::string& number, const std::string& name) {
    const auto blanks = static_cast<size_t>(columns - columns_of(name));  // fmt counts some characters otherwise
    return str("\n", fmt::format("{:>5}", number), "  ", name, std::string(blanks, ' '));
  };
  text += row("class", "name");
  for (const DescribedPart& part : described.parts) text += fmt::format("  {:>6}", part.name);
  for (size_t c = 0; c < train.class_names().size(); ++c) {
    text += row(std::to_string(c), printable(train.class_names()[c]));
    for (const DescribedPart& part : described.parts) text += fmt::format("  {:>6}", part.counts[c]);
  }
  const ChannelStatistics statistics = channel_statistics(train);
  const std::string of = statistics.images < train.count() ? str(statistics.images, " of ") : "";
  text += str("\n\nof ", of, "the training images, pixels scaled to 0..1", channels == 3 ? ", red green blue" : "",
              ":\ndata: {normalize: {mean: ", list_text(statistics.mean), ", std: ", list_text(statistics.std), "}}\n");
  return text;
}

Json json_of(const Described& described) {
  const DataSet& train = described.train();
  const auto& [channels, height, width] = train.shape();
  Json json = {{"kind", described.source.kind->key},
               {"name", train.name()},
               {"path", printable(described.source.folder.native())},
               {"sample", {{"channels", channels}, {"height", height}, {"width", width}}},
               {"classes", train.class_names()}};
  json["pictures"] = nullptr;
  if (const auto sizes = picture_sizes(train))
    json["pictures"] = {{"looked_at", sizes->pictures},
                        {"smallest", {{"width", sizes->smallest.width}, {"height", sizes->smallest.height}}},
                        {"largest", {{"width", sizes->largest.width}, {"height", sizes->largest.height}}}};
  json["notes"] = Json::array();
  for (const DescribedPart& part : described.parts) {
    json["parts"][part.name] = {{"images", part.set->count()}, {"per_class", part.counts}};
    for (const std::string& line : notes_of(*part.set, part.split)) json["notes"].push_back(line);
  }
  const ChannelStatistics statistics = channel_statistics(train);
  json["normalize"] = {{"mean", statistics.mean}, {"std", statistics.std}, {"images", statistics.images}};
  return json;
}

}  // namespace

int data_info(const Words& words) {
  CLI::App app(str("Describes a data set: classes, images of each, sizes, mean and deviation of each channel as "
                   "data.normalize takes them."),
               "cifar-train data info");
  DataOptions options;
  std::string what, sheet;
  bool as_json = false;
  app.add_option("PATH", what, "--data PATH, or a configuration (YAML, JSON) whose data set it is");
  options.add_to(app);
  app.add_option("--sheet", sheet, "write this PNG with up to ten images of every class")->type_name("FILE");
  app.add_flag("--json", as_json, "print JSON");
  if (!parse(app, words)) return 0;
  if (!what.empty() && app.count("--data") > 0)
    fail(ExitCode::usage, in_quotes(what), " and --data ", in_quotes(options.path), " are both given: leave one out");
  if (app.count("--sheet") > 0) {
    require_replaceable(
        sheet, [](std::string_view png) { return is_png_by(png, kProgramName); }, "--sheet");
    if (const Path ending = Path(sheet).extension(); !ending.empty() && lower_case(ending.native()) != ".png")
      fail(ExitCode::usage, "--sheet ", in_quotes(sheet), ": the sheet is a PNG: give a name such as sheet.png");
  }

  if (!what.empty()) options.path = what;
  auto [source, opening] = is_config(what) ? set_of_config(what) : std::pair(options.source(), OpenOptions{});
  const Described described = open_parts(std::move(source), opening);
  const DataSet& train = described.train();
  warn(repeated_images(train));
  for (const DescribedPart& part : described.parts)
    if (part.split != Split::train) warn(same_images(train, *part.set, part.split));
  std::fputs((as_json ? json_of(described).dump(2) + "\n" : text_of(described)).c_str(), stdout);
  if (sheet.empty()) return 0;
  const SampleSheet drawn = sample_sheet(train);
  FileSystem files;
  write_file_atomic(files, sheet, drawn.png);
  std::fprintf(stderr, "%s: up to %ld images of each class, %s, in the order of the classes\n", sheet.c_str(),
               drawn.each, drawn.classes == 1 ? "a class in a row" : str(drawn.classes, " classes in a row").c_str());
  return 0;
}

}  // namespace ct
