// What files of other formats are that are given where safetensors are expected.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "base/wrong_download.h"
#include "checkpoint/safetensors.h"

namespace ct {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view begin, what;
};

constexpr Format kFormats[] = {
    {"PK\3\4"sv, "a zip archive: unpack it and give the safetensors in it"},
    {"\x1f\x8b"sv, "compressed (gzip): unpack it and give the safetensors in it"},
    {"\xfd"
     "7zXZ\0"sv,
     "compressed (xz): unpack it and give the safetensors in it"},
    {"\x28\xb5\x2f\xfd"sv, "compressed (zstd): unpack it and give the safetensors in it"},
    {"BZh"sv, "compressed (bzip2): unpack it and give the safetensors in it"},
    {"\x89HDF\r\n\x1a\n"sv, "HDF5, as Keras writes it: save the weights as safetensors, under PyTorch's names"},
    {"\x93NUMPY"sv, "a NumPy array: save all weights as one file of safetensors, under PyTorch's names"},
    {"GGUF"sv, "a GGUF model: give its weights as safetensors, under PyTorch's names"},
};

/// The protocol's number, 2 to 5, follows the opcode PROTO; other opcodes follow, none of which is 0.
bool is_pickle(std::string_view file) {
  return file.size() > 2 && file[0] == '\x80' && file[1] >= 2 && file[1] <= 5 && file[2] != 0;
}

/// Protocols 0 and 1, which have no PROTO: a class by its name, an empty or a filled dictionary, then STOP.
bool is_early_pickle(std::string_view file) {
  const auto names_class = [&] {
    const size_t end = file.substr(0, 100).find('\n');
    return file.starts_with('c') && end != file.npos && std::ranges::all_of(file.substr(1, end - 1), [](char c) {
             return c == '_' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
           });
  };
  return file.ends_with('.') && (names_class() || file.starts_with("(dp") || file.starts_with("}q"));
}

/// A protocol buffer: the version of the format, then the producer, the graph or the operators' version.
bool is_onnx(std::string_view file) {
  return file.size() > 2 && file[0] == 8 && file[1] > 0 && file[1] < 32 && "\x12\x3a\x42"sv.find(file[2]) != file.npos;
}

Path anew_beside(const Path& path) {
  Path anew = path;
  return anew.replace_filename(path.stem().native() + "-new.pth");
}

std::string early_pickle(const Path& path) {
  return str(
      "a Python pickle that torch.save() did not write: if you trust it, write it anew, with python3 -c \"import ",
      "pickle, torch; torch.save(pickle.load(open(", in_quotes(path.native()), ", 'rb')), ",
      in_quotes(anew_beside(path).native()), ")\"");
}

/// The remedy works as it stands.
std::string old_pickle(const Path& path) {
  const Path anew = anew_beside(path);
  return str(
      "a pickle, as PyTorch wrote before version 1.6: write it anew, with python3 -c \"import torch; torch.save(",
      "torch.load(", in_quotes(path.native()), ", map_location='cpu', weights_only=True), ", in_quotes(anew.native()),
      ")\"");
}

}  // namespace

std::string foreign_format(std::span<const std::byte> bytes, const Path& path) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (file.empty()) return "empty: use another copy of it";
  if (is_pickle(file)) return old_pickle(path);
  if (is_early_pickle(file)) return early_pickle(path);
  if (is_onnx(file)) return "an ONNX model: give its weights as safetensors, under PyTorch's names";
  if (const std::string_view wrong = wrong_download(bytes); !wrong.empty()) return std::string(wrong);
  const auto known = std::ranges::find_if(kFormats, [&](const Format& f) { return file.starts_with(f.begin); });
  return known == std::end(kFormats) ? "" : std::string(known->what);
}

}  // namespace ct
