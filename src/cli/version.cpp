#include "cli/version.h"

#include <gnu/libc-version.h>
#include <openssl/crypto.h>
#include <zlib.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/tar_reader.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/version.h"
#include "comm/mpi/mpi.h"
#include "comm/ucx/ucx.h"
#include "data/pictures/codecs.h"
#include "device/cpu/isa.h"
#include "device/cuda.h"
#include "fetch/http.h"
#include "metrics/metrics_log.h"

namespace ct {
namespace {

constexpr const char* kCompiler = "g++ " __VERSION__;

/// Names and versions. A library that is not here, or not in this build, is "none (REASON)".
std::vector<std::pair<const char*, std::string>> libraries() {
  return {{"MPI", mpi_library()},           {"UCX", ucx_library()},   {"OpenSSL", OpenSSL_version(OPENSSL_VERSION)},
          {"JPEG", jpeg_library()},         {"PNG", png_library()},   {"WebP", webp_library()},
          {"zlib", zlibVersion()},          {"curl", http_library()}, {"libarchive", tar_library()},
          {"glibc", gnu_get_libc_version()}};
}

std::string version_text() {
  const CudaBuild cuda = cuda_build();
  std::string text = str("cifar-train ", version(), " (", commit(), ")\n", "compiler: ", kCompiler, "\n",
                         "device: ", make_cpu_backend()->description(), "\n", "GPUs: ",
                         cuda.toolkit.empty() ? "none (built without CUDA)"
                                              : "CUDA " + cuda.toolkit + " for " + joined(cuda.architectures, ", "),
                         "\n");
  for (const auto& [name, library] : libraries()) text += str(name, ": ", library, "\n");
  return text;
}

Json version_json() {
  const CudaBuild cuda = cuda_build();
  Json object = {{"version", version()},
                 {"commit", commit()},
                 {"compiler", kCompiler},
                 {"device", make_cpu_backend()->description()},
                 {"instruction_set", cpu::instruction_set()},
                 {"cuda", nullptr},
                 {"libraries", Json::object()}};
  if (!cuda.toolkit.empty()) object["cuda"] = {{"toolkit", cuda.toolkit}, {"architectures", cuda.architectures}};
  for (const auto& [name, library] : libraries()) object["libraries"][name] = library;
  return object;
}

}  // namespace

void print_version(const Words& words) {
  const bool json = words == Words{"--json"};
  if (!words.empty() && !json)
    fail(ExitCode::usage, "--version takes --json alone, not ", in_quotes(printable(joined(words, " "))));
  std::printf("%s", json ? (version_json().dump(1) + "\n").c_str() : version_text().c_str());
}

}  // namespace ct
