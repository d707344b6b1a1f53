#include "cli/verbs.h"

#include <openssl/crypto.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <regex>

#include "base/error.h"
#include "base/utf8.h"
#include "base/version.h"
#include "comm/mpi/mpi.h"
#include "comm/ucx/ucx.h"
#include "device/cuda.h"
#include "train/config/suggest.h"

namespace ct {

std::span<const Verb> verbs() {
  static constexpr std::array kVerbs = {
      Verb{"train", "train a model (the default verb)", verb_train, /*on_all_ranks=*/true},
      Verb{"eval", "loss, accuracy and per-class table of a weights file", verb_eval},
      Verb{"predict", "the classes of pictures, by a weights file", verb_predict},
      Verb{"export", "weights under PyTorch's state_dict names", verb_export},
      Verb{"config", "show, check or import a configuration", verb_config},
      Verb{"data", "write the synthetic set, verify or describe data files", verb_data},
      Verb{"ckpt", "list, inspect and verify checkpoints", verb_ckpt},
      Verb{"bench", "measure the throughput of the training step and of its operations", verb_bench,
           /*on_all_ranks=*/true},
      Verb{"sweep", "train with many settings and seeds, and write a table", verb_sweep, /*on_all_ranks=*/true},
      Verb{"launch", "train on several hosts, with the options of DeepSpeed's launcher", verb_launch,
           /*on_all_ranks=*/true},
      Verb{"jobscript", "print a job script for Slurm, Grid Engine or PBS", verb_jobscript},
      Verb{"estimate", "memory and traffic of a run, for every ZeRO stage", verb_estimate},
      Verb{"doctor", "what this machine offers and what would fail on it", verb_doctor},
      Verb{"selftest", "test every operation on this device against its reference", verb_selftest},
  };
  return kVerbs;
}

void warn(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "warning: %s\n", printable(text).c_str());
}

/// "; did you mean --config?" for the first word that no option takes.
static std::string option_meant(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const std::string& word : app.remaining())
    if (word.starts_with('-'))
      if (const std::string near = nearest(word.substr(0, word.find('=')), names); !near.empty())
        return "; did you mean " + near + "?";
  return "";
}

bool parse(CLI::App& app, const Words& words) {
  Words reversed(words.rbegin(), words.rend());  // CLI11 takes them from the back
  try {
    app.parse(reversed);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::CallForAllHelp&) {
    std::fputs(app.help("", CLI::AppFormatMode::All).c_str(), stdout);
  } catch (const CLI::ExtrasError& e) {
    // Training is the default verb, so its parser sees a verb that follows options as an unknown word.
    for (const std::string& word : app.remaining())
      if (std::ranges::any_of(verbs(), [&](const Verb& verb) { return word == verb.name; }))
        fail(ExitCode::usage, word, " is a verb, which comes first: cifar-train ", word, " ...");
    fail(ExitCode::usage, e.what(), option_meant(app), "; see ", app.get_name(), " --help");
  } catch (const CLI::ParseError& e) {
    fail(ExitCode::usage, e.what(), "; see ", app.get_name(), " --help");
  }
  return false;
}

std::string device_problem(const std::string& word) {
  static const std::regex kDevice("auto|cpu|cuda(:[0-9]{1,3})?");
  return std::regex_match(word, kDevice) ? "" : "give auto, cpu, cuda or cuda:N, not '" + word + "'";
}

std::string count_problem(const std::string& word) {
  static const std::regex kCount("[0-9]{1,18}");
  return std::regex_match(word, kCount) ? "" : "give a whole number, 0 or more, not '" + printable(word) + "'";
}

std::string positive_problem(const std::string& word) {
  const bool zero = word.find_first_not_of('0') == word.npos;
  return count_problem(word).empty() && !zero ? "" : "give a whole number, 1 or more, not '" + printable(word) + "'";
}

std::string version_text() {
  return str("cifar-train ", version(), " (", commit(), ")\n", "compiler: g++ ", __VERSION__, "\n",
             "device: ", make_cpu_backend()->description(), "\n", "GPUs: ", cuda_build(), "\n", "MPI: ", mpi_library(),
             "\n", "UCX: ", ucx_library(), "\n", "OpenSSL: ", OpenSSL_version(OPENSSL_VERSION), "\n");
}

}  // namespace ct
