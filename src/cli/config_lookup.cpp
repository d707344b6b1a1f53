#include "cli/config_lookup.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/paths.h"
#include "comm/detect_launch.h"
#include "train/config/encoded.h"
#include "train/config/env_file.h"
#include "train/config/find.h"

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

constexpr const char* kEachRank = "each rank";

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

fs::path locate_config(const std::string& name, std::string_view option) {
  fs::path found;
  try {
    found = find_config(name, config_folders(), option);
  } catch (const Error& error) {
    if (decode_config(name)) return name;  // read_file() takes it so
    if (!looks_encoded(name) && option != "--deepspeed_config") throw;
    if (!looks_encoded(name)) fail(error.code(), error.what(), ", or url-safe base64 of a configuration");
    fail(error.code(), in_quotes(name.substr(0, 60)),
         ": there is no such file, nor is it base64 of a configuration: Expected a string path to an existing "
         "deepspeed config, or a dictionary or a valid base64");
  }
  return for_all_ranks(found);
}

std::string word_of_config(const fs::path& located) {
  if (is_pipe(located)) refuse_pipe(located, "each run");
  return config_in_place_of(located) ? located.string() : absolute_of(located).string();
}

std::vector<std::string> train_words(const ConfigSources& sources) {
  std::vector<std::string> words = {"train", "--config", word_of_config(sources.files.front())};
  const auto add = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
  if (sources.files.size() > 1) add("--deepspeed_config", word_of_config(sources.files[1]));
  for (const ConfigOverride& override : sources.overrides) add("--set", override.key + "=" + override.value);
  for (const std::string& set : sources.sets) add("--set", set);
  return words;
}

void add_config_options(CLI::App& app, ConfigFiles& files, const std::string& config) {
  app.add_option(config, files.config,
                 "YAML, or a DeepSpeed JSON file; looked for as given, then in configs/ (default.yaml)");
  app.add_option("--deepspeed_config,--deepscale_config", files.deepspeed,
                 "DeepSpeed JSON, or url-safe base64 of it, laid over --config");
  app.add_option("--env", files.env,
                 "a job's KEY=VALUE lines, looked for likewise, which may name both of them and --cuda-path");
}

void require_files_for_ranks(const std::vector<std::string>& words) {
  CLI::App app;
  app.allow_extras()->set_help_flag();
  ConfigFiles files;
  add_config_options(app, files);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError&) {  // the ranks tell
  }
  for (const std::string& file : {files.config.value_or(""), files.deepspeed.value_or(""), files.env})
    if (is_pipe(file)) refuse_pipe(file, kEachRank);
}

JobEnvironment enter_job(const std::string& env, std::vector<std::string>* warnings) {
  JobEnvironment job;
  if (env.empty()) return job;
  std::string ignored;
  for (const EnvEntry& entry : read_env_file(for_all_ranks(find_config(env, config_folders(), "--env")))) {
    const auto& [key, value, place] = entry;
    if (value.empty()) continue;
    if (key == "PATH_TO_CONFIG_FILE") {
      job.config = value;
    } else if (key == "PATH_TO_DS_CONFIG") {
      job.deepspeed = value;
    } else if (key == "PATH_TO_WORKING_DIR") {
      std::error_code error;
      fs::current_path(value, error);
      if (error)
        fail(ExitCode::usage, place, ": ", key, " ", in_quotes(value), ": ", error.message(),
             "; name the folder in which relative paths start");
    } else if (key == "CUDA_HOME_PATH" && is_folder(value, ExitCode::usage)) {
      job.cuda_path = ConfigOverride{"cuda.path", value, place};
    } else if (key == "CUDA_HOME_PATH") {
      warnings->push_back(str(place, ": ", key, " is ignored: there is no folder ", in_quotes(value), " here"));
    } else {
      ignored += (ignored.empty() ? "" : ", ") + key;
    }
  }
  if (!ignored.empty()) warnings->push_back(str(env, ": ignored, as no option is called so: ", ignored));
  return job;
}

ConfigSources locate_configs(const ConfigFiles& files, std::vector<std::string>* warnings) {
  const JobEnvironment job = enter_job(files.env, warnings);
  ConfigSources sources;
  sources.begins_with_default = !files.config && job.config.empty();
  sources.files = {locate_config(files.config.value_or(job.config.empty() ? "default.yaml" : job.config))};
  if (files.deepspeed == "")
    fail(ExitCode::usage,
         "--deepspeed_config is empty: DeepSpeed requires --deepspeed_config to specify configuration file");
  if (const std::string deepspeed = files.deepspeed.value_or(job.deepspeed); !deepspeed.empty())
    sources.files.push_back(locate_config(deepspeed, "--deepspeed_config"));
  if (job.cuda_path) sources.overrides.push_back(*job.cuda_path);
  return sources;
}

}  // namespace ct
