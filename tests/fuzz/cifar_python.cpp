#include "data/cifar/python/pickled_batch.h"
#include "target.h"

namespace ct::fuzz::cifar_python {
namespace {

/// The four kinds of pickles in the archives of CIFAR-10 and CIFAR-100; the first byte is which.
void read(Input input) {
  if (input.empty()) return;
  const auto kind = std::to_integer<int>(input[0]);
  const Input pickle = input.subspan(1);
  switch (kind % 4) {
    case 0:
      read_pickled_batch(pickle);
      break;
    case 1:
      read_pickled_batch_100(pickle);
      break;
    case 2:
      read_pickled_names(pickle);
      break;
    default:
      read_pickled_names_100(pickle, (kind & 4) != 0);
  }
}

const Registered registered({.name = "cifar_python", .refusals = {ExitCode::data}, .read = read});

}  // namespace
}  // namespace ct::fuzz::cifar_python
