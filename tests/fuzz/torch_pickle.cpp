#include "checkpoint/torch/pickle.h"
#include "target.h"

namespace ct::fuzz::torch_pickle {
namespace {

void read(Input input) { const Pickle pickle(input, "weights.pth"); }

const Registered registered({.name = "torch_pickle", .refusals = {ExitCode::checkpoint}, .read = read});

}  // namespace
}  // namespace ct::fuzz::torch_pickle
