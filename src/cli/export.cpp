// cifar-train export: weights and networks for other programs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/export/onnx.h"
#include "cli/export/weights.h"
#include "cli/verbs.h"
#include "cli/weight_set.h"
#include "train/run/run_files.h"
#include "train/weights.h"

namespace ct {
namespace {

enum class ExportFormat : uint8_t { safetensors, onnx };
constexpr auto words_of(ExportFormat) { return std::to_array<std::string_view>({"safetensors", "onnx"}); }

/// The format by --format, otherwise by the name of --out. Error(usage) if the name is of another format.
ExportFormat format_of(const std::string& word, const std::string& out) {
  const std::string extension = lower_case(std::filesystem::path(out).extension().string());
  const ExportFormat by_name = extension == ".onnx" ? ExportFormat::onnx : ExportFormat::safetensors;
  const ExportFormat format = of_word(word, by_name);
  const std::string own = str(".", word_of(format));
  constexpr std::string_view kOthers[] = {".onnx", ".safetensors", ".pth", ".pt"};
  const bool is_own = extension == own || extension.empty() || extension == ".bin";  // as a run names its weights
  if (!is_own && (word.empty() || std::ranges::find(kOthers, extension) != std::end(kOthers)))
    fail(ExitCode::usage, "--out ", in_quotes(out), ": this version writes ",
         word.empty() ? "safetensors and ONNX" : own.substr(1), ", not ", extension, " files",
         word.empty() ? "" : str(", with --format ", own.substr(1)), "; give a name such as ",
         word.empty() ? "model.safetensors or model.onnx" : "model" + own);
  return format;
}

/// Returns what was written.
std::string write_tensors(ExportedWeights& weights, const std::string& out) {
  require_replaceable_weights(out);
  const std::vector<TensorView> tensors = weights.tensors();
  Metadata metadata = weights.file().metadata();
  metadata.erase("cifar_train.evaluated");  // there is but one set
  FileSystem files;
  weights.write([&](const auto& still_whole) { write_safetensors(files, out, tensors, metadata, still_whole); });
  return str(tensors.size(), " tensors");
}

}  // namespace

int verb_export(const Words& words) {
  CLI::App app(
      "Write the weights in f32 under PyTorch's state_dict names as safetensors, or the network with them as ONNX.",
      "cifar-train export");
  OnnxExport options;
  std::string format_word;
  app.add_option("RUN,--ckpt", options.checkpoint,
                 "a weights file, or the folder of a run (its best.bin) or checkpoint")
      ->type_name("PATH")
      ->required();
  app.add_option("--out", options.out, "the file to write: NAME.safetensors or NAME.onnx")
      ->type_name("FILE")
      ->required();
  app.add_option("--format", format_word, "safetensors | onnx (default: by the name of --out)")
      ->check(CLI::IsMember(words_of(ExportFormat{})));
  app.add_flag("--raw", options.raw, "ONNX: the output is the logits, not the probabilities");
  app.add_option(
         "--views", options.views,
         "ONNX: plain | mirrored | shifted: the copies of an image whose logits are averaged (default: the run's)")
      ->check(CLI::IsMember(words_of(EvalViews{})));
  WeightSetOptions which;
  which.add_to(app);
  if (!parse(app, words)) return 0;

  const ExportFormat format = format_of(format_word, options.out);
  if (format != ExportFormat::onnx && (options.raw || !options.views.empty()))
    fail(ExitCode::usage, options.raw ? "--raw" : "--views", " is of ONNX models: give --format onnx, or leave it out");
  ExportedWeights weights(options.checkpoint, which);
  const OnnxWritten written = format == ExportFormat::onnx
                                  ? write_onnx(weights, options)
                                  : OnnxWritten{write_tensors(weights, options.out), /*sample=*/""};

  const SafetensorsFile& file = weights.file();
  if (const std::string lost = not_finite_text(not_finite(file, weights.set())); !lost.empty())
    warn(in_quotes(options.checkpoint) + ": " + lost);
  // Into a pipe or device the weights are the data, so that what is said of them goes elsewhere.
  std::FILE* const chatter = kind_of(options.out) == PathKind::other ? stderr : stdout;
  std::string line = printable(options.out) + ": " + written.what;
  if (const std::string note = weight_set_note(file, weights.set()); !note.empty()) line += ": " + note;
  if (const std::string converted = conversions(file); !converted.empty()) line += "; " + converted;
  std::fprintf(chatter, "%s\n", line.c_str());
  if (!written.sample.empty())
    std::fprintf(chatter, "try it: python3 %s PICTURE\n", shell_word(written.sample).c_str());
  return 0;
}

}  // namespace ct
