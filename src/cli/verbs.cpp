#include "cli/verbs.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <regex>

#include "base/error.h"
#include "base/files.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/option_text.h"
#include "cli/other_words.h"
#include "cli/verb_reader.h"

namespace ct {

std::span<const Verb> verbs() {
  static constexpr std::array kVerbs = {
      Verb{"train",
           "train a model (the default verb)",
           verb_train,
           {"cifar-train --config tutorial.yaml --output runs/tutorial",
            "mpirun -np 4 cifar-train --config resnet18.yaml --set train.epochs=10"},
           /*on_all_ranks=*/true},
      Verb{"eval",
           "loss, accuracy and per-class table of a weights file",
           verb_eval,
           {"cifar-train eval --ckpt runs/tutorial/best.bin",
            "cifar-train eval runs/tutorial --confusion confusion.csv --json"}},
      Verb{"predict",
           "the classes of pictures, by a weights file",
           verb_predict,
           {"cifar-train predict --ckpt runs/tutorial/best.bin photo.jpg",
            "cifar-train predict --ckpt runs/tutorial/best.bin cifar10:test:17 --top 3"}},
      Verb{"export",
           "weights under PyTorch's state_dict names, or the network as an ONNX model",
           verb_export,
           {"cifar-train export --ckpt runs/tutorial --out tutorial.safetensors",
            "cifar-train export --ckpt runs/tutorial --out tutorial.onnx"}},
      Verb{"config",
           "show, check or import a configuration",
           verb_config,
           {"cifar-train config show configs/resnet18.yaml", "cifar-train config check configs/resnet18.yaml"},
           /*on_all_ranks=*/false,
           /*has_commands=*/true},
      Verb{"data",
           "download, describe, verify or convert data sets",
           verb_data,
           {"cifar-train data fetch cifar10", "cifar-train data convert --from imagenet --out imagenet.ctpack"},
           /*on_all_ranks=*/false,
           /*has_commands=*/true},
      Verb{"ckpt",
           "list, inspect, verify and remove checkpoints",
           verb_ckpt,
           {"cifar-train ckpt ls runs/tutorial", "cifar-train ckpt verify runs/tutorial"},
           /*on_all_ranks=*/false,
           /*has_commands=*/true},
      Verb{"bench",
           "measure the throughput of the training step and of its operations",
           verb_bench,
           {"cifar-train bench --config tutorial.yaml", "cifar-train bench step --ops --config resnet18.yaml"},
           /*on_all_ranks=*/true},
      Verb{"lr-find",
           "draw the loss against the learning rate, and name a rate",
           verb_lr_find,
           {"cifar-train lr-find --config resnet18.yaml", "cifar-train lr-find --from 1e-5 --to 10 --steps 200"},
           /*on_all_ranks=*/true},
      Verb{"sweep",
           "train with many settings and seeds, and write a table",
           verb_sweep,
           {"cifar-train sweep --grid seed=1,2,3 --output runs/seeds",
            "cifar-train sweep --grid train_batch_size=32,64 --repeats 3 --output runs/batches"},
           /*on_all_ranks=*/true},
      Verb{"compare",
           "train one network with one rank, several and ZeRO, side by side",
           verb_compare,
           {"cifar-train compare --config resnet18.yaml --ranks 2",
            "cifar-train compare --steps 1000 --output runs/compare --html compare.html"},
           /*on_all_ranks=*/true},
      Verb{"report",
           "curves, results and settings of runs, as one HTML file",
           verb_report,
           {"cifar-train report runs/tutorial", "cifar-train report runs/a runs/b --out comparison.html"}},
      Verb{"launch",
           "train on several hosts, with the options of DeepSpeed's launcher",
           verb_launch,
           {"cifar-train launch --num_gpus 2 --config default.yaml",
            "cifar-train launch --hostfile hosts --include a@b:0,1 --config default.yaml"},
           /*on_all_ranks=*/true},
      Verb{"jobscript",
           "print a job script for Slurm, Grid Engine or PBS",
           verb_jobscript,
           {"cifar-train jobscript --scheduler slurm --nodes 2 --ranks-per-node 2 --time 1h > job.sh",
            "cifar-train jobscript --scheduler pbs --config resnet18.yaml --time 8h > job.sh"}},
      Verb{"estimate",
           "memory and traffic of a run, for every ZeRO stage",
           verb_estimate,
           {"cifar-train estimate --config resnet18.yaml --ranks 4",
            "cifar-train estimate --config default.yaml --json"}},
      Verb{"doctor",
           "what this machine offers and what would fail on it",
           verb_doctor,
           {"cifar-train doctor", "cifar-train doctor --json"}},
      Verb{"selftest",
           "test every operation on this device against its reference",
           verb_selftest,
           {"cifar-train selftest", "cifar-train selftest --device cuda"}},
      Verb{"completion",
           "print a script that completes words in bash, zsh or fish",
           verb_completion,
           {"cifar-train completion bash >> ~/.bashrc", "cifar-train completion fish | source"}},
  };
  return kVerbs;
}

void warn(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "%s\n", in_rows(STDERR_FILENO, "warning: " + printable(text)).c_str());
}

/// The words that no option takes, and what the first of them may mean: "--epohcs 3 is not expected; did you mean
/// --epochs?" Empty: there are none.
static std::string unexpected(const CLI::App& app) {
  const Words words = app.remaining();
  if (words.empty()) return "";
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  size_t things = 0;  // an option and its value are one
  for (size_t i = 0; i < words.size(); ++i)
    things += i == 0 || words[i].starts_with('-') || !words[i - 1].starts_with('-');
  std::string text = joined(words, " ", [](const std::string& word) { return printable(word); }) +
                     (things > 1 ? " are not expected" : " is not expected");
  for (const std::string& word : words)
    if (word.starts_with('-'))
      if (const std::string meant = option_meant(word, names); !meant.empty()) {
        text += "; did you mean " + meant + (words.size() > 1 ? " where you wrote " + printable(word) : "") + "?";
        break;
      }
  return text;
}

/// "--ckpt is given twice, as 'a' and 'b'". Empty: there is no such option.
static std::string repeated(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const Words& given = option->results();
    if (option->get_items_expected_max() != 1 || given.size() < 2) continue;
    const std::string place = option->get_positional() ? option->get_name(/*positional=*/true) + " (" : "";
    return str(place, option->get_name(), place.empty() ? "" : ")", " is given ",
               given.size() == 2 ? "twice" : str(given.size(), " times"), ", as ", in_quotes(given[0]), " and ",
               in_quotes(given[1]), ": give it once");
  }
  return "";
}

/// Ends a message.
static std::string see_help(const CLI::App& app, const std::string& message) {
  return str(message, message.ends_with('?') ? " See " : "; see ", app.get_name(), " --help");
}

std::string examples_of(const Verb& verb) {
  return str("\nExamples:\n  ", verb.examples[0], "\n  ", verb.examples[1], "\n");
}

std::string examples_of(const std::string& verb) {
  for (const Verb& of : verbs())
    if (verb == of.name) return examples_of(of);
  return "";
}

bool parse(CLI::App& app, const Words& words) {
  if (const VerbReader* reader = verb_reader()) return reader->options(app), false;
  for (const std::string& word : words)  // a shell's variable that is not set; CLI11 would take the next word
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      fail(ExitCode::usage, word, " has no value: give one, or leave the option out");
  Words reversed(words.rbegin(), words.rend());  // CLI11 takes them from the back
  try {
    app.parse(reversed);
    return true;
  } catch (const CLI::CallForHelp&) {
    const std::string verb = app.get_name().substr(app.get_name().rfind(' ') + 1);
    std::fputs((help_text(app, help_columns()) + examples_of(verb)).c_str(), stdout);
  } catch (const CLI::ExtrasError&) {
    // Training is the default verb, so its parser sees a verb that follows options as CONFIG or as an unknown word.
    Words unknown = app.remaining();
    if (const CLI::Option* config = app.get_option_no_throw("CONFIG"); config != nullptr)
      unknown.insert(unknown.begin(), config->results().begin(), config->results().end());
    for (const std::string& word : unknown)
      if (std::ranges::any_of(verbs(), [&](const Verb& verb) { return word == verb.name; }))
        fail(ExitCode::usage, word, " is a verb, which comes first: cifar-train ", word, " ...");
    fail(ExitCode::usage, see_help(app, unexpected(app)));
  } catch (const CLI::ParseError& e) {  // such as a missing option, whose name may have been misspelt
    std::string message = unexpected(app);
    if (message.empty()) message = repeated(app);
    fail(ExitCode::usage, see_help(app, message.empty() ? e.what() : message));
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

std::function<std::string(const std::string&)> number_between(double least, double most) {
  return [least, most](const std::string& word) {
    double number = 0;
    const char* const end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data(), end, number);
    const bool is_in = error == std::errc() && at == end && number >= least && number <= most;
    return is_in ? "" : str("give a number from ", least, " to ", most, ", not '", printable(word), "'");
  };
}

}  // namespace ct
