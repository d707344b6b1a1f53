// cifar-train export: weights for other programs.
#include <cstdio>

#include "base/error.h"
#include "cli/verbs.h"
#include "train/weights.h"

namespace ct {

int verb_export(const Words& words) {
  CLI::App app("Write the weights in f32 under PyTorch's state_dict names, as safetensors.", "cifar-train export");
  std::string checkpoint, out, format = "safetensors";
  app.add_option("--ckpt", checkpoint, "a weights file: best.bin, last.bin or weights.safetensors")->required();
  app.add_option("--out", out, "the file to write")->required();
  app.add_option("--format", format, "safetensors")->check(CLI::IsMember({"safetensors"}));
  if (!parse(app, words)) return 0;

  const SafetensorsFile file(checkpoint);
  FileSystem files;
  write_safetensors(files, out, file.views(), file.metadata());
  std::printf("%s: %zu tensors\n", out.c_str(), file.tensors().size());
  return 0;
}

}  // namespace ct
