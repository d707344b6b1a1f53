#include "cli/versions.h"

#include <openssl/crypto.h>

#include "base/error.h"
#include "base/version.h"
#include "comm/mpi/mpi.h"
#include "comm/ucx/ucx.h"
#include "device/cuda.h"

namespace ct {

std::string version_text() {
  return str("cifar-train ", version(), " (", commit(), ")\n", "compiler: g++ ", __VERSION__, "\n",
             "device: ", make_cpu_backend()->description(), "\n", "GPUs: ", cuda_build(), "\n", "MPI: ", mpi_library(),
             "\n", "UCX: ", ucx_library(), "\n", "OpenSSL: ", OpenSSL_version(OPENSSL_VERSION), "\n");
}

}  // namespace ct
