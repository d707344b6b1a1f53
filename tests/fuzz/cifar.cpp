#include "as_file.h"
#include "data/cifar/cifar_set.h"

namespace ct::fuzz::cifar {
namespace {

void read(Input input) {
  as_file("test_batch.bin", input);
  const CifarSet set(folder(), Split::test, {.on_corrupt = OnCorrupt::skip, .records_per_file = 0});
  set.fingerprint();
}

const Registered registered({.name = "cifar", .refusals = {ExitCode::data}, .read = read});

}  // namespace
}  // namespace ct::fuzz::cifar
