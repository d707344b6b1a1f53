#include <cstring>

#include "base/crc32c.h"
#include "data/packed/format.h"
#include "target.h"

namespace ct::fuzz::packed {
namespace {

/// As whoever makes a file on purpose would: header and index get the checksums and the length that they need.
void seal(std::vector<std::byte>& file) {
  PackedHeader header;
  if (file.size() < sizeof header || !is_packed(file)) return;
  std::memcpy(&header, file.data(), sizeof header);
  header.file_bytes = file.size();
  header.header_crc = 0;
  const auto behind = std::span(file).subspan(sizeof header);
  if (header.index_bytes <= behind.size()) header.index_crc = crc32c(behind.first(header.index_bytes));
  header.header_crc = crc32c(std::as_bytes(std::span(&header, 1)));
  std::memcpy(file.data(), &header, sizeof header);
}

void read(Input input) {
  std::vector<std::byte> file(input.begin(), input.end());  // aligned, as a mapped file is
  seal(file);
  const PackedIndex index = read_packed_index(file);
  for (const Split split : {Split::train, Split::test}) {
    int64_t i = 0;
    for (const PackedEntry& picture : index.of(split)) {
      packed_problem(file, picture);
      if (index.name(split, i++).size() > file.size()) fail(ExitCode::bug, "a name beyond the file");
    }
  }
}

const Registered registered({.name = "packed", .refusals = {ExitCode::data}, .read = read});

}  // namespace
}  // namespace ct::fuzz::packed
