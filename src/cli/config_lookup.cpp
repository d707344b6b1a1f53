#include "cli/config_lookup.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/paths.h"
#include "cli/foreign.h"
#include "cli/own_pictures.h"
#include "comm/detect_launch.h"
#include "train/config/foreign.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

/// The source tree that a build folder belongs to, as CMake noted it there; empty: no build folder.
fs::path source_of_build(const fs::path& folder) {
  constexpr std::string_view kEntry = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  std::ifstream cache(folder / "CMakeCache.txt");
  for (std::string line; std::getline(cache, line);)
    if (line.starts_with(kEntry)) return line.substr(kEntry.size());
  return {};
}

/// The source's configs/, looked for upward from the executable: nothing compiled in that a move could turn into a lie.
fs::path source_configs(const fs::path& executable) {
  std::error_code error;
  for (fs::path folder = executable.parent_path(); folder.has_relative_path(); folder = folder.parent_path())
    for (const fs::path& source : {folder, source_of_build(folder)})
      if (!source.empty() && fs::exists(source / "configs" / "default.yaml", error) &&
          fs::exists(source / "CMakeLists.txt", error))
        return source / "configs";
  return {};
}

/// Where the configurations lie that come with the program.
std::vector<fs::path> config_folders() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  // The installed ones first: a folder of some build above an installation has no say in it.
  std::vector<fs::path> folders = {installed_configs(executable)};
  if (const fs::path configs = source_configs(executable); !configs.empty()) folders.push_back(configs);
  return folders;
}

constexpr const char *kEachRank = "each rank", *kDataKey = "data.path";

/// Where a word says that the data is; empty: none says it.
std::string named_data(const ConfigWords& words) {
  std::string data;
  for (const ConfigOverride& word : words.overrides)
    if (word.key == kDataKey) data = word.value;
  const std::string begin = str(kDataKey, "=");
  for (const std::string& set : words.sets)
    if (set.starts_with(begin)) data = set.substr(begin.size());
  return data;
}

bool is_pipe(const fs::path& file) {
  std::error_code error;
  return fs::is_fifo(file, error);
}

[[noreturn]] void refuse_pipe(const fs::path& file, const std::string& readers) {
  fail(ExitCode::usage, in_quotes(file.native()), " is a pipe, which can be read once, and ", readers,
       " would read it: give a file");
}

/// `file`, unless it is a pipe that other ranks would read too.
fs::path for_all_ranks(const fs::path& file) {
  if (is_pipe(file) && detect_launch().parallel()) refuse_pipe(file, kEachRank);
  return file;
}

}  // namespace

fs::path find_config(const std::string& name, const std::vector<fs::path>& directories, std::string_view option) {
  std::vector<fs::path> candidates = {name};
  if (!name.empty() && candidates[0].is_relative())
    for (const auto& directory : directories) {
      // As files of a job name those that are shipped, from the folder that holds configs/.
      const bool from_above = *candidates[0].begin() == directory.filename();
      candidates.push_back((from_above ? directory.parent_path() : directory) / name);
    }
  std::string looked;
  for (const auto& candidate : candidates) {
    const PathKind kind = kind_of(candidate, ExitCode::usage);
    if (kind != PathKind::nothing && kind != PathKind::folder) return candidate;
    if (&candidate != &candidates[0]) looked += (looked.empty() ? " nor in " : ", ") + candidate.parent_path().string();
  }
  const std::string culprit = str(option, option.empty() ? "" : " ", in_quotes(name));
  if (is_folder(candidates[0], ExitCode::usage))
    fail(ExitCode::usage, culprit, ": it is a folder; give the path of a file");
  if (name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/"))
    fail(ExitCode::usage, culprit,
         ": no file is open here under this name, because mpirun and other launchers do not pass pipes such as <(...) "
         "on to ranks: write its text into a file");
  fail(ExitCode::usage, culprit, ": there is no such file here", looked,
       option == "--config" ? "; give a path, or leave it out for default.yaml" : "; give a path");
}

fs::path installed_configs(const fs::path& executable) {
  return executable.parent_path().parent_path() / "share" / "cifar-train" / "configs";
}

fs::path locate_config(const std::string& name, std::string_view option) {
  fs::path found;
  try {
    found = find_config(name, config_folders(), option);
  } catch (const Error& error) {
    if (text_in_place_of(name)) return name;  // read_file() takes it so
    if (!looks_encoded(name) && option != kOverlayOption) throw;
    if (!looks_encoded(name)) fail(error.code(), error.what(), ", or url-safe base64 of a configuration");
    fail(error.code(), in_quotes(name.substr(0, 60)),
         ": there is no such file, nor is it base64 of a configuration: Expected a string path to an existing "
         "deepspeed config, or a dictionary or a valid base64");
  }
  return for_all_ranks(found);
}

fs::path locate_file(const std::string& name, std::string_view option) {
  return for_all_ranks(find_config(name, config_folders(), option));
}

std::vector<std::string> shipped_configs() {
  std::set<std::string> names;
  for (const fs::path& folder : config_folders()) {
    std::error_code error;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
      if (const fs::path kind = entry->path().extension(); kind == ".yaml" || kind == ".json")
        names.insert(entry->path().lexically_relative(folder).string());
  }
  return {names.begin(), names.end()};
}

std::string word_of_config(const fs::path& located) {
  if (is_pipe(located)) refuse_pipe(located, "each run");
  return text_in_place_of(located) ? located.string() : absolute_of(located).string();
}

void add_config_options(CLI::App& app, ConfigWords& words, const std::string& config) {
  app.add_option(config, words.config,
                 "a YAML or DeepSpeed JSON file, looked up as given, then in configs/; default: default.yaml")
      ->type_name("CONFIG");
  add_foreign_files(app, words);
  add_key_option(
      app, words, "--data", kDataKey,
      "the folder or packed file of the images (data.path); without --config, pictures are trained by finetune.yaml")
      ->type_name("PATH");
  add_key_option(app, words, "--model", "model.name", "the network (model.name)");
  app.add_option("--set", words.sets, "replaces a key of the configuration; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

CLI::Option* add_key_option(CLI::App& app, ConfigWords& words, const char* option, const char* key, const char* text) {
  const auto set = [&words, option, key](const std::string& value) { words.overrides.push_back({key, value, option}); };
  return app.add_option_function<std::string>(option, set, text);
}

void add_device_options(CLI::App& app, ConfigWords& words) {
  add_key_option(app, words, "--device", "device", "auto | cpu | cuda | cuda:N");
  add_key_option(app, words, "--cuda-path", "cuda.path",
                 "the folder that is searched first for cuDNN, cuBLAS and NCCL (cuda.path)")
      ->type_name("FOLDER");
}

void require_files_for_ranks(const std::vector<std::string>& words) {
  CLI::App app;
  app.allow_extras()->set_help_flag();
  ConfigWords files;
  add_config_options(app, files);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError&) {  // the ranks tell
  }
  for (const std::string& file : {files.config.value_or(""), files.overlay.value_or(""), files.env})
    if (is_pipe(file)) refuse_pipe(file, kEachRank);
}

ConfigSources locate_configs(const ConfigWords& words, std::vector<std::string>* warnings,
                             const decltype(ConfigSources::flags)& flags, const std::string& pretrained) {
  const JobEnvironment job = enter_job(words.env, warnings);
  const bool is_named = words.config || !job.config.empty();
  const std::string data = named_data(words);
  const bool for_pictures = !is_named || (words.config && fs::path(*words.config).filename() == kOwnPicturesConfig);
  const bool own_pictures = for_pictures && !data.empty() && holds_own_pictures(data);
  ConfigSources sources{.begins_with_default = !is_named, .flags = flags, .sets = words.sets};
  sources.files = {locate_config(!job.config.empty() && !words.config ? job.config
                                 : words.config                       ? *words.config
                                 : own_pictures                       ? kOwnPicturesConfig
                                                                      : "default.yaml")};
  if (words.overlay == "")
    fail(ExitCode::usage, kOverlayOption, " is empty: DeepSpeed requires ", kOverlayOption,
         " to specify configuration file");
  if (const std::string overlay = words.overlay.value_or(job.overlay); !overlay.empty())
    sources.files.push_back(locate_config(overlay, kOverlayOption));
  if (job.cuda_path) sources.overrides.push_back(*job.cuda_path);
  sources.overrides.insert(sources.overrides.end(), words.overrides.begin(), words.overrides.end());
  if (own_pictures && sources.files.size() == 1)  // another file has batch and schedule of its own
    sources.fitted = fitted_to_pictures(sources, pretrained);
  return sources;
}

std::vector<std::string> train_words(const ConfigSources& sources) {
  std::vector<std::string> words = {"train", "--config", word_of_config(sources.files.front())};
  const auto add = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
  if (sources.files.size() > 1) add(kOverlayOption, word_of_config(sources.files[1]));
  std::vector<std::string> said;  // by load_config()
  for (const auto& overrides : {sources.fitted, keys_of_flags(sources, &said), sources.overrides})
    for (const ConfigOverride& override : overrides) add("--set", override.key + "=" + override.value);
  for (const std::string& set : sources.sets) add("--set", set);
  return words;
}

}  // namespace ct
