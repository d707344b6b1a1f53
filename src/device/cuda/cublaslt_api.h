// The functions of cuBLASLt that products need, from the library that is found at run time.
#pragma once

#include <cublasLt.h>

#include <string>

#include "device/cuda/library.h"

namespace ct::cuda {

struct CublasLt {
  /// Throws ExitCode::usage naming the library and the places where it was looked for.
  explicit CublasLt(const LibraryPlaces& places);

  /// "cuBLASLt 13.1.0"
  std::string description() const;
  /// Throws an Error that names the call: ExitCode::memory where memory runs out, usage for what this library or GPU
  /// does not offer, else bug.
  void check(cublasStatus_t status, const char* call) const;

  Library library;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) get_version;
  decltype(&cublasLtGetStatusString) get_status_string;
  decltype(&cublasLtMatrixLayoutInit_internal) matrix_layout_init;
  decltype(&cublasLtMatmulDescInit_internal) matmul_desc_init;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set;
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_config_get;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmul) matmul;
};

}  // namespace ct::cuda
