#include "checkpoint/inspect.h"
#include "checkpoint/torch/archive.h"
#include "target.h"

namespace ct::fuzz::torch_archive {
namespace {

void read(Input input) {
  std::vector<std::vector<std::byte>> copies;
  if (is_torch_archive(input)) summarise(tensors_of_torch_archive(input, "weights.pth", copies));
}

const Registered registered({.name = "torch_archive", .refusals = {ExitCode::checkpoint}, .read = read});

}  // namespace
}  // namespace ct::fuzz::torch_archive
