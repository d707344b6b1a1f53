// cuBLASLt's functions for products, from the library that is found at run time.
#pragma once

#include <cublasLt.h>

#include <string>

#include "device/cuda/library.h"

namespace ct::cuda {

/// The functions, by their names here and in the library.
#define CT_CUBLASLT_FUNCTIONS(X)                            \
  X(create, cublasLtCreate)                                 \
  X(destroy, cublasLtDestroy)                               \
  X(get_version, cublasLtGetVersion)                        \
  X(get_status_string, cublasLtGetStatusString)             \
  X(matrix_layout_init, cublasLtMatrixLayoutInit_internal)  \
  X(matmul_desc_init, cublasLtMatmulDescInit_internal)      \
  X(matmul_desc_set, cublasLtMatmulDescSetAttribute)        \
  X(preference_init, cublasLtMatmulPreferenceInit_internal) \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute)   \
  X(get_heuristic, cublasLtMatmulAlgoGetHeuristic)          \
  X(algo_config_get, cublasLtMatmulAlgoConfigGetAttribute)  \
  X(algo_check, cublasLtMatmulAlgoCheck)                    \
  X(matmul, cublasLtMatmul)

struct CublasLt {
  /// Throws ExitCode::usage with the library and the searched places.
  explicit CublasLt(const LibraryPlaces& places);

  /// "cuBLASLt 13.1.0"
  std::string description() const;
  /// Throws an Error with the call: ExitCode::memory if memory is exhausted, usage for unsupported features of this
  /// library or GPU, otherwise bug.
  void check(cublasStatus_t status, const char* call) const;

  Library library;
#define CT_MEMBER(name, function) decltype(&function) name;
  CT_CUBLASLT_FUNCTIONS(CT_MEMBER)
#undef CT_MEMBER
};

}  // namespace ct::cuda
