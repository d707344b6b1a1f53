#include "checkpoint/manifest.h"

#include "as_file.h"
#include "checkpoint/sealed_json.h"

namespace ct::fuzz::manifest {
namespace {

/// The checksum of the manifest is made right, as whoever makes one on purpose would.
void read(Input input) {
  constexpr std::string_view kOpening = R"({"manifest_crc32c":")";
  constexpr size_t kDigits = 8;
  const std::string_view text = text_of(input);
  const bool may_be_sealed = text.starts_with(kOpening) && text.size() >= kOpening.size() + kDigits;
  as_file(kManifestFile, may_be_sealed ? seal(kOpening, text.substr(kOpening.size() + kDigits)) : std::string(text));
  const Manifest manifest = read_manifest(folder());
  for (const Part& part : manifest.parts)
    if (part.name.find('/') != part.name.npos) fail(ExitCode::bug, "a file of another folder: ", part.name);
  if (step_of(step_name(manifest.step)) != manifest.step) fail(ExitCode::bug, "a step that has no name");
}

const Registered registered({.name = "manifest", .refusals = {ExitCode::checkpoint}, .read = read});

}  // namespace
}  // namespace ct::fuzz::manifest
