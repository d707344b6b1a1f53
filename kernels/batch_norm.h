// Batch normalisation over rows (Ioffe & Szegedy, 2015) with a residual and ReLU in one pass, and its gradient.
//
//   forward    y = relu((x - mean) / sqrt(var + eps) * w + b + residual), var biased
//   mask       bit i % 8 of byte i / 8: !(y <= 0) of element i
//   gradient   g = 0 where y <= 0, else dy (a NaN in y lets dy through); dresidual = g;
//              db = sum g, dw = sum g (x - mean) / sigma, sigma = sqrt(var + eps);
//              dx = w / sigma (g - db / rows - (x - mean) / sigma dw / rows)
//
// x, residual, y and their gradients [rows][channels], dense (NHWC: rows = N H W), of shape.type; values per channel
// are f32 [channels]. Any number of channels >= 1 and any alignment are valid. Accesses are 16 bytes wide if rows are
// multiples of 16 bytes and all pointers are aligned to 16 bytes.
//
// The shape alone determines how rows are cut into parts. Each thread sums at most 64 rows of a part in f32 (more where
// there would be more than 16,384 parts), and a tree over threads adds these sums. The forward pass sums differences
// from the part's first row, so a large mean costs no precision. Parts are merged in f64, in one order (Chan, Golub &
// LeVeque, 1983), by the last blocks of the kernel that makes them (tickets.h): few parts by one block; many in groups,
// each by the last of its blocks, and the groups by the last block of all. Results do not depend on the device or on
// alignment, nor on which block is the last. Where channels are so many that tickets do not suffice for their groups,
// several launches share the work of one.
//
// All functions run in the stream. cudaErrorInvalidValue: no rows or no channels, a mask where none may be, no tickets
// where they are needed.
#pragma once

#include "element.h"

namespace ct::kernels {

struct BatchNormShape {
  int64_t rows, channels;
  Type type;
};

struct BatchNormArgs {
  BatchNormShape shape;
  double eps;
  bool relu;
  const void *x, *residual;  // nullptr: none
  const float *w, *b;
  void* y;
  uint8_t* mask =
      nullptr;        // [rows * channels / 8]; only of 16 bits with relu and residual, channels % 8 == 0; null: none
  float *mean, *var;  // written by batch_norm, read by batch_norm_result
  void* workspace;
  unsigned* tickets = nullptr;  // of batch_norm
};
/// Computes mean and var of these rows, and the result. Reads x twice and residual once, and writes y once: 3 * rows *
/// channels elements of `type` (4 * rows * channels with a residual), and the workspace twice. The second pass begins
/// with the rows that the first read last, which caches still hold. Launches two kernels.
cudaError_t batch_norm(const BatchNormArgs& args, cudaStream_t stream);
/// Computes the result from given mean and var, with the same bits as batch_norm. Reads x and residual once, and writes
/// y once: 2 * rows * channels elements (3 * rows * channels with a residual). Launches two kernels.
cudaError_t batch_norm_result(const BatchNormArgs& args, cudaStream_t stream);

struct BatchNormGradArgs {
  BatchNormShape shape;
  double eps;
  const void *x, *y, *dy;                   // y null: no ReLU
  const uint8_t* mask = nullptr;            // as written by batch_norm, read in the place of y; null: none
  const float *w, *b, *mean, *var;          // b given: there was no residual, and y may be recomputed instead of read
  const void* more_dy;                      // added to dy, and the sum rounded to the type; null: none
  void *dx, *dresidual;                     // dresidual null: not written
  float *dw, *db, *batch_mean, *batch_var;  // batch_mean = mean, batch_var = var rows / (rows - 1)
  void* workspace;
  unsigned* tickets = nullptr;  // with dw
};
/// The first pass reads x, dy and y, and writes dresidual. The second reads x, and dresidual if it is given, otherwise
/// dy and y; it writes dx. If b is given and dresidual is not, both recompute y from x instead, rounded to the type as
/// it was. With m = rows * channels, both passes together move 5 * m elements without ReLU or with b, otherwise
/// 7 * m (with dresidual 7 * m, without ReLU 6 * m; with dresidual and mask 6 * m and m bits), and the workspace twice.
/// more_dy, which only a call with y, dresidual and dw may have, is m more: a sum of its own would move 3 * m. The
/// second pass begins with the rows that the first read last. dw null: mean and var are constants, so dx = w / sigma g;
/// x, b, db, batch_mean and batch_var are null too. Moves 2 * m elements (3 * m with ReLU), and m more with dresidual.
/// Launches two kernels.
cudaError_t batch_norm_grad(const BatchNormGradArgs& args, cudaStream_t stream);

/// Bytes of the workspace for any of these functions, aligned to 8 bytes; written and read once. In bf16 it is 0.8 % of
/// the size of x for 802,816 x 64 elements (many rows), and a quarter for 8,192 x 256.
size_t batch_norm_workspace(const BatchNormShape& shape);

}  // namespace ct::kernels
