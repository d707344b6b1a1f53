#include "as_file.h"
#include "base/tar_reader.h"

namespace ct::fuzz::tar {
namespace {

void read(Input input) {
  constexpr uint64_t kMost = uint64_t{1} << 30, kMostOfOne = uint64_t{64} << 20;  // as for CIFAR-10's archive
  TarReader tar(as_file("archive.tar.gz", input), kMost, ExitCode::data);
  while (const auto member = tar.next())
    if (member->bytes <= kMostOfOne) tar.content();
}

const Registered registered({.name = "tar", .refusals = {ExitCode::data}, .read = read});

}  // namespace
}  // namespace ct::fuzz::tar
