// cifar-train export: weights for other programs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <list>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/store.h"
#include "checkpoint/weights_hash.h"
#include "cli/verbs.h"
#include "cli/weight_set.h"
#include "train/run/run_files.h"
#include "train/weights.h"

namespace ct {
namespace {

/// The file's tensors of one set, the average's under the names of what they are averages of; others, such as counters,
/// as they are.
std::vector<StoredTensor> tensors_of(const SafetensorsFile& file, WeightSet set) {
  std::vector<StoredTensor> taken;
  for (StoredTensor tensor : file.tensors()) {
    const bool average = is_average(file, tensor.name);
    if (average) tensor.name.resize(tensor.name.size() - kEmaSuffix.size());
    const bool has_average = file.find(str(tensor.name, kEmaSuffix)) != nullptr;
    if (has_average && average != (set == WeightSet::ema)) continue;
    taken.push_back(std::move(tensor));
  }
  return taken;
}

/// A tensor of a floating-point type as f32, in `storage` where it is converted; others as they are.
TensorView in_f32(const SafetensorsFile& file, const StoredTensor& tensor, std::list<std::vector<float>>& storage) {
  if (tensor.dtype == StoredType::f32 || !is_float(tensor.dtype)) return tensor;
  std::vector<float>& values = storage.emplace_back(tensor.data.size() / size_of(tensor.dtype));
  if (const auto at = to_f32(tensor.dtype, tensor.data, values))
    fail(ExitCode::checkpoint, in_quotes(file.path().native()), ": tensor ", in_quotes(tensor.name),
         " is too large for f32 at ", place_of(tensor.shape, *at), ": use another file");
  return {tensor.name, StoredType::f32, tensor.shape, std::as_bytes(std::span(values))};
}

}  // namespace

int verb_export(const Words& words) {
  CLI::App app("Write the weights in f32 under PyTorch's state_dict names, as safetensors.", "cifar-train export");
  std::string checkpoint, out, format = "safetensors";
  app.add_option("RUN,--ckpt", checkpoint, "a weights file, or the folder of a run (its best.bin) or checkpoint")
      ->required();
  app.add_option("--out", out, "the file to write")->required();
  app.add_option("--format", format, "safetensors");
  WeightSetOptions which;
  which.add_to(app);
  if (!parse(app, words)) return 0;

  if (format != "safetensors")
    fail(ExitCode::usage, "--format ", format, " is not supported by this version; use safetensors");
  constexpr std::string_view kOthers[] = {".onnx", ".pth", ".pt"};
  const std::string extension = lower_case(std::filesystem::path(out).extension().string());
  if (std::ranges::find(kOthers, extension) != std::end(kOthers))
    fail(ExitCode::usage, "--out ", in_quotes(out), ": this version writes safetensors, not ", extension,
         " files; give a name such as model.safetensors");
  const SafetensorsFile file(weights_file(checkpoint));
  const WeightSet set = which.of(file);
  require_replaceable_weights(out);
  FileSystem files;
  std::list<std::vector<float>> storage;
  std::vector<TensorView> tensors;
  for (const StoredTensor& t : tensors_of(file, set)) tensors.push_back(in_f32(file, t, storage));
  if (tensors.empty())
    fail(ExitCode::checkpoint, in_quotes(file.path().native()), " has no tensors: give a file of weights");
  Metadata metadata = file.metadata();
  metadata.erase("cifar_train.evaluated");  // there is but one set
  const auto still_whole = [&file] { file.require_unchanged(); };
  try {
    write_safetensors(files, out, tensors, metadata, still_whole);
  } catch (const Error&) {
    still_whole();  // what is gone of the source cannot be written either
    throw;
  }
  const std::string converted = conversions(file);
  if (const std::string lost = not_finite_text(not_finite(file, set)); !lost.empty())
    warn(in_quotes(checkpoint) + ": " + lost);
  // Into a pipe or device the weights are the data, so that what is said of them goes elsewhere.
  std::FILE* const chatter = kind_of(out) == PathKind::other ? stderr : stdout;
  const std::string note = weight_set_note(file, set);
  std::fprintf(chatter, "%s: %zu tensors%s%s%s%s\n", printable(out).c_str(), tensors.size(), note.empty() ? "" : ": ",
               note.c_str(), converted.empty() ? "" : "; ", converted.c_str());
  return 0;
}

}  // namespace ct
