#include "cli/sweep/plan.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "train/config/document.h"

namespace ct {
namespace {

using document::Node;

constexpr const char *kSeed = "seed", *kOutput = "output", *kFoldKey = "data.validation", *kFolds = "--folds";
constexpr size_t kMostRuns = 10000, kLongestFolder = 150;

/// One combination of settings.
using Settings = std::vector<Setting>;

Node parse(const std::string& text, const std::string& origin) {
  if (!document::is_text(text)) fail(ExitCode::usage, origin, ": is not text in UTF-8");
  return document::parse_yaml(text, std::make_shared<document::Origin>(document::Origin{origin, false}));
}

std::pair<std::string, std::string> split(const std::string& word, const std::string& origin) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0)
    fail(ExitCode::usage, origin, ": write KEY=VALUE, such as optimizer.params.lr=0.1");
  return {word.substr(0, equals), word.substr(equals + 1)};
}

/// "optimizer.params.lr=0.1,0.01": a combination for each value.
std::vector<Settings> grid_of(const std::string& word) {
  const std::string origin = "--grid " + in_quotes(word);
  const auto [key, values] = split(word, origin);
  std::vector<Settings> all;
  for (const Node& value : parse("[" + values + "]", origin).items) {
    if (value.kind == document::Kind::null) fail(ExitCode::usage, origin, ": one of its values is empty");
    all.push_back({{key, document::flow(value), "--grid"}});
  }
  if (all.empty()) fail(ExitCode::usage, origin, ": the list of values is empty; give --grid ", key, "=VALUE,VALUE");
  return all;
}

/// Words between blanks. A value that begins with a bracket or a quote goes to where that is closed.
std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words(1);
  int depth = 0;   // of brackets
  char quote = 0;  // that is open
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    std::string& word = words.back();
    const size_t last = word.find_last_not_of(' ');
    const char before = last == std::string::npos ? '\0' : word[last];
    const bool begins = depth > 0 ? std::string_view("[{,:").find(before) != std::string_view::npos : before == '=';
    if (quote == 0 && depth == 0 && std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (!word.empty()) words.emplace_back();
      continue;
    }
    word += c;
    if (quote != 0) {
      const bool escaped = quote == '"' ? c == '\\' : c == quote && next == quote;
      if (escaped && next != 0)
        word += text[++i];
      else if (c == quote)
        quote = 0;
    } else if (begins && (c == '"' || c == '\'')) {
      quote = c;
    } else if ((c == '[' || c == '{') && (depth > 0 || begins)) {
      ++depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// "optimizer.type=SGD optimizer.params.lr=0.1"
Settings case_of(const std::string& words) {
  const std::string origin = "--case " + in_quotes(words);
  Settings settings;
  for (const std::string& word : words_in(words)) {
    const auto [key, value] = split(word, origin);
    if (value.empty()) fail(ExitCode::usage, origin, ": ", key, " has no value");
    settings.push_back({key, document::flow(parse(value, origin)), "--case"});
  }
  if (settings.empty()) fail(ExitCode::usage, origin, ": the list of settings is empty; give --case \"KEY=VALUE ...\"");
  return settings;
}

/// Each of `all` with each of `more`.
std::vector<Settings> product(const std::vector<Settings>& all, const std::vector<Settings>& more) {
  if (all.size() * more.size() > kMostRuns)
    fail(ExitCode::usage, "these are more than ", kMostRuns, " runs: give fewer values");
  std::vector<Settings> result;
  for (const Settings& first : all)
    for (const Settings& second : more) {
      result.push_back(first);
      result.back().insert(result.back().end(), second.begin(), second.end());
    }
  return result;
}

std::vector<Settings> seeds(int64_t first, int64_t count) {
  std::vector<Settings> all;
  for (int64_t i = 0; i < count; ++i) all.push_back({{kSeed, std::to_string(first + i), "--repeats"}});
  return all;
}

std::vector<Settings> folds(int64_t count) {
  std::vector<Settings> all;
  for (int64_t i = 1; i <= count; ++i) all.push_back({{kFoldKey, str(i, "/", count), kFolds}});
  return all;
}

SweepRun run_of(const Settings& settings) {
  SweepRun run;
  std::set<std::string> keys;
  for (const Setting& setting : settings) {
    if (setting.key == kOutput)
      fail(ExitCode::usage,
           "output: leave it out, because a sweep puts the folders of its runs into the one of --output");
    if (!keys.insert(setting.key).second)
      fail(ExitCode::usage, in_quotes(setting.key), " is given twice: by --grid, --case, --folds or --repeats");
    if (setting.key == kSeed)
      run.seed = setting.value;
    else if (setting.option == kFolds)
      run.fold = setting.value;
    else
      run.settings.push_back(setting);
  }
  return run;
}

}  // namespace

std::string SweepRun::text(bool with_seed) const {
  std::string text = joined(settings, ", ", &Setting::text);
  if (!with_seed) return text;
  if (const size_t slash = fold.find('/'); slash != fold.npos)
    text += str(text.empty() ? "" : ", ", "fold=", fold.substr(0, slash), "of", fold.substr(slash + 1));
  return str(text, text.empty() ? "" : ", ", kSeed, "=", seed);
}

std::string SweepRun::folder() const {
  const auto strange = [](unsigned char c) {
    return std::isalnum(c) == 0 && std::string_view("._=,+-").find(static_cast<char>(c)) == std::string_view::npos;
  };
  const std::string all = text(true);
  std::string name = all;
  std::erase(name, ' ');
  const bool telling = std::ranges::none_of(name, strange) && name.size() <= kLongestFolder;
  std::ranges::replace_if(name, strange, '_');
  return telling ? name : name.substr(0, kLongestFolder) + "-" + crc_text(crc32c(all));
}

std::vector<ConfigOverride> SweepRun::overrides() const {
  std::vector<ConfigOverride> all = {{kSeed, seed, "--repeats"}};
  if (!fold.empty()) all.push_back({kFoldKey, fold, kFolds});
  for (const Setting& setting : settings)
    all.push_back({setting.key, setting.value, setting.option + " " + setting.text()});
  return all;
}

std::vector<SweepRun> plan_sweep(const SweepWords& words, int64_t first_seed) {
  if (words.grid.empty() && words.cases.empty() && words.repeats < 2 && words.folds == 0)
    fail(ExitCode::usage,
         "there is nothing to sweep: give --grid KEY=VALUE,VALUE, --case \"KEY=VALUE ...\", --folds or --repeats");
  std::vector<Settings> all = {{}};
  if (!words.cases.empty()) all.clear();
  for (const std::string& word : words.cases) all.push_back(case_of(word));
  for (const std::string& word : words.grid) all = product(all, grid_of(word));
  if (words.folds > 0) all = product(all, folds(words.folds));
  const bool own_seeds = std::ranges::any_of(all.front(), [](const Setting& s) { return s.key == kSeed; });
  if (!own_seeds || words.repeats > 1) all = product(all, seeds(first_seed, words.repeats));
  std::vector<SweepRun> runs;
  std::set<std::string> folders;
  for (const Settings& settings : all) {
    runs.push_back(run_of(settings));
    if (runs.back().seed.empty())
      fail(ExitCode::usage, "some cases have a seed and others have none: set seed in every case or in none");
    if (!folders.insert(runs.back().folder()).second)
      fail(ExitCode::usage, "the same run is listed twice: ", runs.back().text(true), ": leave one of them out");
  }
  return runs;
}

}  // namespace ct
