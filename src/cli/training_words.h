// The options that say what is trained and from which weights, common to train,
// lr-find, sweep, estimate and config show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/config_lookup.h"
#include "cli/foreign.h"
#include "train/initial_weights.h"

namespace ct {

struct TrainingWords {
  ConfigWords files;
  std::string lr, init, pretrained, init_head;
  bool init_resize = false;
  ForeignFlags foreign;

  /// Adds the options of a configuration, --lr, those of initial weights, and the flags of other programs. `config`: as
  /// for add_config_options().
  void add_to(CLI::App& app, const std::string& config = "--config");
  /// locate_configs() with all of these options.
  ConfigSources sources(std::vector<std::string>* warnings) const;
  /// The word of --init or --pretrained: a file, or the network of published weights; empty: weights are drawn from the
  /// seed.
  const std::string& initial_word() const { return pretrained.empty() ? init : pretrained; }
  /// Its file; published weights are downloaded if they are not there.
  std::string initial_file() const;
  InitOptions init_options() const;
  /// The options of initial weights, for a process whose working folder may differ.
  std::vector<std::string> initial_words() const;
};

/// Throws Error(usage) for words that cannot be of several runs: a pipe, which one run could read, --set output=...,
/// where `verb` puts the folders of its runs into the one of --output, and an `output` that no configuration can name.
void require_words_of_several_runs(const TrainingWords& words, const ConfigSources& sources, std::string_view verb,
                                   const std::string& output);

/// Error(usage) where --set or a sweep's word gives a key of --lr another value.
void require_one_rate(const ConfigSources& sources);

}  // namespace ct
