// The functions of cuBLASLt that products need, from the library that is found at run time.
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
  /// Throws ExitCode::usage naming the library and the places where it was looked for.
  explicit CublasLt(const LibraryPlaces& places);

  /// "cuBLASLt 13.1.0"
  std::string description() const;
  /// Throws an Error that names the call: ExitCode::memory where memory runs out, usage for what this library or GPU
  /// does not offer, else bug.
  void check(cublasStatus_t status, const char* call) const;

  Library library;
#define CT_MEMBER(name, function) decltype(&function) name;
  CT_CUBLASLT_FUNCTIONS(CT_MEMBER)
#undef CT_MEMBER
};

}  // namespace ct::cuda
