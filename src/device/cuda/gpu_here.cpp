#include "device/cuda/gpu_here.h"

#include <fstream>
#include <string>

namespace ct::cuda {
namespace {

namespace fs = std::filesystem;

std::string word_of(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

/// Calls `is(entry)` for what lies in the folder until one is.
template <class Predicate>
bool any_entry(const fs::path& folder, Predicate is) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is(at->path())) return true;
  return false;
}

/// nvidia0, nvidia1, ...; not nvidiactl.
bool is_device_file(const fs::path& path) {
  const std::string name = path.filename().string(), start = "nvidia";
  return name.starts_with(start) && name.size() > start.size() &&
         name.find_first_not_of("0123456789", start.size()) == std::string::npos;
}

bool is_on_bus(const fs::path& device) {
  const std::string kind = word_of(device / "class");
  return word_of(device / "vendor") == "0x10de" && kind.starts_with("0x03");  // NVIDIA's; display, 3D
}

}  // namespace

bool gpu_here(const fs::path& root) {
  std::error_code ignored;
  return any_entry(root / "dev", is_device_file) || fs::exists(root / "usr/lib/wsl/lib/libcuda.so.1", ignored) ||
         any_entry(root / "sys/bus/pci/devices", is_on_bus);
}

}  // namespace ct::cuda
