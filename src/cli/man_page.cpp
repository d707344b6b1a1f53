// The man page, from the parsers that --help is printed from, as troff.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/option_text.h"
#include "cli/verb_reader.h"

namespace ct {
namespace {

/// Text as troff shows it unchanged: with a '-' that can be copied.
std::string troff(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  return out;
}

/// A paragraph in short lines, of which none begins a request.
std::string paragraph(const std::string& text) {
  std::istringstream lines(wrapped(troff(text), 78, ""));
  std::string out;
  for (std::string line; std::getline(lines, line);)
    out += (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + line + "\n";
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + troff(text) + "\\fR"; }

void print_option(const CLI::Option& option) {
  std::string line =
      joined(CLI::detail::split(option.get_name(/*positional=*/true, /*all_options=*/true), ','), ", ", bold);
  if (const std::string value = operand(option); !value.empty() && option.nonpositional())
    line += " \\fI" + troff(value) + "\\fR";
  std::printf(".TP\n%s\n%s", line.c_str(), paragraph(option.get_description()).c_str());
}

void print_examples(const Verb& verb) {
  std::printf(".PP\nExamples:\n.PP\n.EX\n%s\n%s\n.EE\n", troff(verb.examples[0]).c_str(),
              troff(verb.examples[1]).c_str());
}

void print_options(const Verb& verb, const CLI::App& app) {
  std::printf(".SS %s\n%s", troff(app.get_name()).c_str(), paragraph(app.get_description()).c_str());
  for (const std::string& group : app.get_groups()) {
    const auto members =
        app.get_options([&](const CLI::Option* o) { return o->get_group() == group && o != app.get_help_ptr(); });
    if (group.empty() || members.empty()) continue;
    if (group != "Options") std::printf(".PP\n%s:\n", troff(group).c_str());
    for (const CLI::Option* option : members) print_option(*option);
  }
  print_examples(verb);
}

void print_verb(const Verb& verb) {
  read_verb(verb, {.options = [&](const CLI::App& app) { print_options(verb, app); },
                   .commands =
                       [](const Family& family) {
                         for (const Verb& member : family.members) print_verb(member);
                       }});
}

constexpr const char* kBeginning = R"(.SH NAME
cifar\-train \- train image classifiers on CPUs and NVIDIA GPUs
.SH SYNOPSIS
.SY cifar\-train
.RI [ VERB ]
.RI [ OPTIONS ]
.YS
.SY cifar\-train
.B \-\-help
|
.B \-\-version
.YS
.SH DESCRIPTION
.B cifar\-train
trains image classifiers, on one core or many hosts.
It reads DeepSpeed configurations and writes safetensors files under
PyTorch's names.
The same configuration gives the same weights, bit for bit, on any number of
ranks, with every ZeRO stage, and after any interruption.
.PP
Without a verb it trains.
Under
.B mpirun
each process is a rank.
Results go to standard output, messages to standard error.
)";

constexpr const char* kEnd = R"(.SH FILES
A run writes into its folder,
.BR \-\-output :
.TP
.I config.yaml
the effective configuration
.TP
.I metrics.jsonl
.TQ
.I metrics.csv
one record a line: steps, evaluations, checkpoints, the end
.TP
.I ckpt/step\-XXXXXXXX/
checkpoints, from which a run continues
.TP
.I last.bin
.TQ
.I best.bin
weights of the newest and of the best evaluation, as safetensors
.PP
Configurations that come with the program are in
.IR PREFIX/share/cifar\-train/configs .
.SH ENVIRONMENT
.TP
.B NO_COLOR
has no effect, because colours and escape sequences are never written
.TP
.B TERM
if it is
.IR dumb ,
no line of a terminal is rewritten in place
.TP
.B COLUMNS
the width of lines, where standard output is no terminal
.TP
.B CUDA_VISIBLE_DEVICES
the GPUs that ranks use
.TP
.B CIFAR_TRAIN_MIRROR
addresses of folders, between blanks, from which published data sets and
weights are downloaded instead of the published addresses
.TP
.B XDG_CACHE_HOME
the folder in which
.I cifar\-train/
keeps downloaded weights; otherwise
.I ~/.cache
.TP
.B http_proxy
.TQ
.B https_proxy
.TQ
.B all_proxy
.TQ
.B no_proxy
the proxies of downloads, and the hosts without one
.TP
.B CURL_CA_BUNDLE
.TQ
.B SSL_CERT_FILE
.TQ
.B SSL_CERT_DIR
the certificates of downloads; otherwise the system's
.TP
.B TMPDIR
the folder of temporary files
.SH EXIT STATUS
.TP
.B 0
success
.TP
.B 1
a bug;
.BR "ckpt diff" :
they differ
.TP
.B 2
usage, configuration or launch
.TP
.B 3
data
.TP
.B 4
diverged: loss, gradient or weights are not finite
.TP
.B 5
checkpoint damaged or incompatible
.TP
.B 6
out of memory
.TP
.B 7
another rank was lost or timed out
.TP
.B 8
disk or I/O
.TP
.B 75
stopped on request with a good checkpoint: run the same command again
)";

}  // namespace

int print_man_page(const Words& words) {
  std::printf(".TH CIFAR\\-TRAIN 1 \"%s\" \"cifar\\-train %s\" \"User Commands\"\n%s.SH VERBS\n",
              words.empty() ? "" : words.front().c_str(), std::string(version()).c_str(), kBeginning);
  for (const Verb& verb : verbs()) std::printf(".TP\n%s\n%s", bold(verb.name).c_str(), paragraph(verb.summary).c_str());
  std::printf(".SH OPTIONS\n");
  for (const Verb& verb : verbs()) print_verb(verb);
  std::fputs(kEnd, stdout);
  return 0;
}

}  // namespace ct
