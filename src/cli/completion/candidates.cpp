#include "cli/completion/candidates.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/config_lookup.h"
#include "cli/launch/options.h"
#include "cli/verb_reader.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

void add(Candidates& to, const std::string& typed, const std::string& word, const std::string& about = "") {
  if (word.starts_with(typed)) to.words.push_back({word, about});
}

Candidates merged(Candidates first, const Candidates& second) {
  for (const Candidate& candidate : second.words)
    if (std::ranges::find(first.words, candidate.word, &Candidate::word) == first.words.end())
      first.words.push_back(candidate);
  first.files = std::max(first.files, second.files);
  return first;
}

Candidates verbs_like(std::span<const Verb> verbs, const std::string& typed) {
  Candidates found;
  for (const Verb& verb : verbs) add(found, typed, verb.name, verb.summary);
  return found;
}

/// Configurations by their shipped names, and those that lie in the folder of the typed path, with its folders.
Candidates configurations(const std::string& typed) {
  Candidates found;
  if (typed.starts_with('~') || typed.starts_with('$')) return {.files = Candidates::Files::any};  // the shell knows
  for (const std::string& name : shipped_configs()) add(found, typed, name, "shipped");
  const std::string folder = typed.substr(0, typed.rfind('/') + 1), name = typed.substr(folder.size());
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (!file.starts_with(name) || (file.starts_with('.') && name.empty()) || printable(file) != file) continue;
    std::error_code gone;
    const std::string kind = entry->path().extension().string();
    if (entry->is_directory(gone))
      add(found, typed, folder + file + "/");
    else if (kind == ".yaml" || kind == ".yml" || kind == ".json")
      add(found, typed, folder + file);
  }
  return found;
}

/// The words before and behind a " | ": "fit | keep | reset: ..." has three. Words that end
/// in a capital stand for others: "PATH", "cuda:N".
std::vector<std::string> listed_words(const std::string& description) {
  constexpr std::string_view kBar = " | ";
  std::vector<std::string> words;
  for (size_t bar = 0; (bar = description.find(kBar, bar)) != description.npos; bar += kBar.size()) {
    const size_t before = description.rfind(' ', bar - 1) + 1, behind = bar + kBar.size();
    if (words.empty()) words.push_back(description.substr(before, bar - before));
    words.emplace_back(trimmed(description.substr(behind, description.find(' ', behind) - behind), ":,;"));
  }
  std::erase_if(words, [](const std::string& word) { return std::isupper(static_cast<unsigned char>(word.back())); });
  return words;
}

/// The configuration's key in parentheses: "the network (model.name)"; empty: none.
std::string named_key(const std::string& description) {
  const size_t begin = description.rfind('(') + 1, end = description.find(')', begin);
  return begin == 0 || end == description.npos ? "" : description.substr(begin, end - begin);
}

/// What an option's help names; where that is nothing, a text may be a file.
Candidates values_of(const CLI::Option& option, const std::string& typed) {
  const std::string kind = option.get_type_name(), &about = option.get_description();
  if (kind.starts_with("KEY=VALUE")) return setting_candidates(typed);
  if (kind == "CONFIG") return configurations(typed);
  if (kind == "FOLDER") return {.files = Candidates::Files::folders};
  Candidates found;
  for (const std::string& word : listed_words(about)) add(found, typed, word);
  found = merged(found, value_candidates(named_key(about), typed));
  const bool any_text = (kind == "TEXT" || kind == "FILE" || kind == "PATH") && listed_words(about).empty();
  if (found.words.empty() && (any_text || about.find("PATH") != about.npos)) found.files = Candidates::Files::any;
  return found;
}

/// The same with `before` in front of each word.
Candidates behind(const std::string& before, Candidates found) {
  for (Candidate& candidate : found.words) candidate.word = before + candidate.word;
  return found;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0; }

/// What may come after the words of a verb with these options.
Candidates of_options(const CLI::App& app, const Words& given, const std::string& typed) {
  const CLI::Option* waiting = nullptr;  // for its value
  size_t places = 0;                     // that are taken by words which are no option's
  for (const std::string& word : given) {
    if (std::exchange(waiting, nullptr) != nullptr) continue;
    if (!word.starts_with('-'))
      ++places;
    else if (const CLI::Option* option = app.get_option_no_throw(word); option != nullptr && takes_value(*option))
      waiting = option;
  }
  if (waiting != nullptr) return values_of(*waiting, typed);
  if (const size_t equals = typed.find('='); typed.starts_with('-') && equals != typed.npos) {
    const CLI::Option* option = app.get_option_no_throw(typed.substr(0, equals));
    if (option == nullptr || !takes_value(*option)) return {};
    return behind(typed.substr(0, equals + 1), values_of(*option, typed.substr(equals + 1)));
  }
  const auto shown = app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
  Candidates found;
  if (typed.starts_with('-')) {
    for (const CLI::Option* option : shown)
      for (const std::string& name : option->get_lnames())
        if (("--" + name).starts_with(typed)) {  // of several names the first that fits
          add(found, typed, "--" + name, option->get_description());
          break;
        }
    return found;
  }
  const CLI::Option* place = nullptr;
  for (const CLI::Option* option : shown)
    if (option->get_positional() && (place == nullptr || places > 0)) {
      if (place != nullptr) --places;
      place = option;
    }
  if (place == nullptr || (places > 0 && place->get_expected_max() < CLI::detail::expected_max_vector_size)) return {};
  return values_of(*place, typed);
}

/// launch takes its own options first, then the words of a run.
Candidates of_launch(const CLI::App& app, const Words& given, const std::string& typed) {
  const LaunchWords split = split_launch_words(app, given);
  Words all = split.program;
  all.push_back(typed);
  if (!split.program.empty()) return candidates(all);
  const Candidates own = of_options(app, given, typed);
  return typed.starts_with('-') ? merged(own, candidates(all)) : own;
}

/// What `help` takes: a verb, and a member of its family.
Candidates of_help(const Words& given, const std::string& typed) {
  Candidates found;
  if (given.empty()) return verbs_like(verbs(), typed);
  for (const Verb& verb : verbs())
    if (given.size() == 1 && given.front() == verb.name)
      read_verb(verb, {.options = [](const CLI::App&) {},
                       .commands = [&](const Family& family) { found = verbs_like(family.members, typed); }});
  return found;
}

Candidates of_verb(const Verb& verb, const Words& given, const std::string& typed) {
  Candidates found;
  read_verb(verb, {.options =
                       [&](CLI::App& app) {
                         found = verb.run == verb_launch ? of_launch(app, given, typed) : of_options(app, given, typed);
                       },
                   .commands =
                       [&](const Family& family) {
                         if (given.empty()) return void(found = verbs_like(family.members, typed));
                         for (const Verb& member : family.members)
                           if (given.front() == member.name)
                             found = of_verb(member, {given.begin() + 1, given.end()}, typed);
                       }});
  return found;
}

}  // namespace

Candidates candidates(const Words& words) {
  Words given = words;
  const std::string typed = given.empty() ? "" : given.back();
  if (!given.empty()) given.pop_back();
  if (!given.empty() && given.front() == "help") return of_help({given.begin() + 1, given.end()}, typed);
  const Verb& train = verbs().front();  // the default
  if (given.empty() && typed.starts_with('-')) {
    Candidates found = of_verb(train, {}, typed);
    add(found, typed, "--version", "the libraries and the commit");
    return found;
  }
  if (given.empty()) {
    Candidates found = verbs_like(verbs(), typed);
    add(found, typed, "help", "the options of a verb");
    return found;
  }
  if (given.front().starts_with('-')) return of_verb(train, given, typed);
  for (const Verb& verb : verbs())
    if (given.front() == verb.name) return of_verb(verb, {given.begin() + 1, given.end()}, typed);
  return {};
}

}  // namespace ct
