#include "data/mnist/mnist_set.h"
#include "target.h"

namespace ct::fuzz::mnist {
namespace {

void read(Input input) {
  for (const IdxFile& file : {read_images(input), read_labels(input)})
    if (file.problem.empty() && file.items.size() < static_cast<size_t>(file.count))
      fail(ExitCode::bug, file.count, " items in ", file.items.size(), " bytes");
}

const Registered registered({.name = "mnist", .refusals = {ExitCode::data}, .read = read});

}  // namespace
}  // namespace ct::fuzz::mnist
