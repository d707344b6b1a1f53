#include "checkpoint/safetensors.h"

#include <cstring>

#include "as_file.h"
#include "base/crc32c.h"
#include "checkpoint/inspect.h"
#include "checkpoint/sealed_json.h"

namespace ct::fuzz::safetensors {
namespace {

/// The input is a header and the elements. Its length is put in front, and a checksum that the header has is made
/// right, as whoever makes a file on purpose would.
std::string sealed(Input input) {
  constexpr std::string_view kOpening = R"({"__metadata__":{"header_crc32c":")";
  constexpr size_t kDigits = 8;
  const std::string_view text = text_of(input);
  const size_t end = text.rfind('}');
  const uint64_t size = end == text.npos ? text.size() : end + 1;
  std::string header(text.substr(0, size));
  const auto length = std::as_bytes(std::span(&size, 1));
  if (header.starts_with(kOpening) && header.size() >= kOpening.size() + kDigits)
    header = seal(kOpening, header.substr(kOpening.size() + kDigits), crc32c(length));
  return std::string(text_of(length)) + header + std::string(text.substr(size));
}

void read(Input input) {
  for (const Path& path : {as_file("sealed.safetensors", sealed(input)), as_file("weights.safetensors", input)}) {
    const SafetensorsFile file(path, SafetensorsFile::Check::header);
    file.damaged_tensors();
    summarise(file.views());
  }
}

const Registered registered({.name = "safetensors", .refusals = {ExitCode::checkpoint}, .read = read});

}  // namespace
}  // namespace ct::fuzz::safetensors
