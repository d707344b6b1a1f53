#include "mma.h"
#include "muon_norm.h"
#include "orthogonalize.h"

namespace ct::kernels {
namespace {

using Half = __nv_bfloat16;

// Products are computed in tiles of kTile rows and columns, kTile terms at a time, by four warps that have a quarter of
// the tile each. Matrices are padded with zeros to whole tiles, so no product has a border.
constexpr int kTile = 4 * kBlock;
constexpr int kThreads = 128;
constexpr int kRow = kTile + 8;                       // elements between rows in shared memory, see mma.h
constexpr int kPacks = kTile * kTile / 8 / kThreads;  // of 16 bytes, of a tile, of a thread

/// A matrix and its place in the workspace: x, the next x, g and p, one after another.
struct Entry {
  float* x;
  int64_t at;  // the first element
  int rows, columns, stride;
  float scale;

  __host__ __device__ __forceinline__ bool tall() const { return rows > columns; }
  /// Of x, transposed if it is tall: its rows and columns, and their tiles.
  __host__ __device__ __forceinline__ int height() const { return tall() ? columns : rows; }
  __host__ __device__ __forceinline__ int width() const { return tall() ? rows : columns; }
  __host__ __device__ __forceinline__ int tiles_high() const { return divide_up(height(), kTile); }
  __host__ __device__ __forceinline__ int tiles_wide() const { return divide_up(width(), kTile); }
  __host__ __device__ __forceinline__ int64_t matrix() const {
    return int64_t{tiles_high()} * tiles_wide() * (kTile * kTile);
  }
  __host__ __device__ __forceinline__ int64_t square() const {
    return int64_t{tiles_high()} * tiles_high() * (kTile * kTile);
  }
};

struct Table {
  Entry of[kMostMatrices];
  int count;
  double* sums;  // kMuonNormBlocks for each matrix
  Half* memory;
};

/// What tiles a launch computes: those of x, or those of g and p.
enum class Tiles : uint8_t { matrix, square };
__host__ __device__ __forceinline__ int tiles_wide(const Entry& m, Tiles tiles) {
  return tiles == Tiles::matrix ? m.tiles_wide() : m.tiles_high();
}
__host__ __device__ __forceinline__ int tiles_of(const Entry& m, Tiles tiles) {
  return m.tiles_high() * tiles_wide(m, tiles);
}
unsigned tiles_of(const Table& t, Tiles tiles) {
  int all = 0;
  for (int i = 0; i < t.count; ++i) all += tiles_of(t.of[i], tiles);
  return static_cast<unsigned>(all);
}

/// The matrix of a block, and the first row and column of its tile.
struct Place {
  int matrix, row, column;
};
__device__ __forceinline__ Place place_of_block(const Table& t, Tiles tiles) {
  int matrix = 0, tile = static_cast<int>(blockIdx.x);
  for (; matrix + 1 < t.count && tile >= tiles_of(t.of[matrix], tiles); ++matrix) tile -= tiles_of(t.of[matrix], tiles);
  const int wide = tiles_wide(t.of[matrix], tiles);
  return {matrix, tile / wide * kTile, tile % wide * kTile};
}

__global__ void __launch_bounds__(kMuonThreads) square_sums(Table t) {
  const Entry& m = t.of[blockIdx.y];
  add_squares(m.x, int64_t{m.rows} * m.stride, static_cast<int>(blockIdx.x),
              t.sums + int64_t{blockIdx.y} * kMuonNormBlocks);
}

/// x / max(|x|, eps), rounded, a tile per block.
__global__ void __launch_bounds__(kMuonThreads) begin(Table t, double eps) {
  const Place at = place_of_block(t, Tiles::matrix);
  const Entry& m = t.of[at.matrix];
  const float share = share_of_norm(t.sums + int64_t{at.matrix} * kMuonNormBlocks, eps);
  auto* tile = shared_memory<float>(kMuonSharedBytes);  // as it lies in x; rows are one longer, for reading columns
  const bool tall = m.tall();
  const int first_row = tall ? at.column : at.row, first_column = tall ? at.row : at.column;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kMuonThreads) {
    const int r = i / kTile, k = i % kTile, row = first_row + r, column = first_column + k;
    tile[r * (kTile + 1) + k] =
        row < m.rows && column < m.columns ? share * m.x[int64_t{row} * m.stride + column] : 0.0f;
  }
  __syncthreads();
  const int width = m.tiles_wide() * kTile;
  Half* to = t.memory + m.at + int64_t{at.row} * width + at.column;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kMuonThreads) {
    const int r = i / kTile, k = i % kTile;
    to[int64_t{r} * width + k] = from_float<Half>(tall ? tile[k * (kTile + 1) + r] : tile[r * (kTile + 1) + k]);
  }
}

/// A tile of a matrix in memory, of which a thread has kPacks packs.
struct Mine {
  uint4 of[kPacks];
};
template <class Body>
__device__ __forceinline__ void for_mine(Body body) {
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    body(i, at / (kTile / 8), at % (kTile / 8) * 8);
  }
}
__device__ __forceinline__ void load(Mine& to, const Half* from, int row) {
  for_mine([&](int i, int r, int k) { to.of[i] = *reinterpret_cast<const uint4*>(from + int64_t{r} * row + k); });
}
__device__ __forceinline__ void store(const Mine& from, Half* to) {
  for_mine([&](int i, int r, int k) { *reinterpret_cast<uint4*>(to + r * kRow + k) = from.of[i]; });
}

enum class Product : uint8_t { gram, polynomial, update };

/// result = alpha left right + beta sum. `right` is transposed, its rows are the product's columns, but for an update.
struct Factors {
  const Half *left, *right, *sum;
  int terms, columns;  // of left, and of right, sum and result
};
template <Product kProduct>
__device__ __forceinline__ Factors factors_of(const Entry& m, const Half* x, const Half* g, const Half* p) {
  const int high = m.tiles_high() * kTile, wide = m.tiles_wide() * kTile;
  if constexpr (kProduct == Product::gram) return {x, x, nullptr, wide, high};
  if constexpr (kProduct == Product::polynomial) return {g, g, g, high, high};  // g is its own transpose
  if constexpr (kProduct == Product::update) return {p, x, x, high, wide};
}

/// The warp's quarter of a tile, after its product: alpha sums + beta s.
__device__ __forceinline__ void finish(Block (&sums)[2][2], float alpha, float beta, const Half* s, int row) {
  const int g = lane_of_warp() / 4;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      for_elements([&](int n, int e, int half, int column) {
        float& sum = sums[i][j][n][e];
        const Half* at = s + int64_t{i * kBlock + half * 8 + g} * row + j * kBlock + column;
        sum = beta == 0 ? alpha * sum : __fmaf_rn(alpha, sum, beta * to_float(*at));
      });
}

/// One product of every matrix, a tile per block. x is the `from`-th of the two; `last`: the result goes to the f32
/// matrix, scaled.
template <Product kProduct>
__global__ void __launch_bounds__(kThreads) product(Table t, int from, float alpha, float beta, bool last) {
  constexpr bool kUpdate = kProduct == Product::update;
  auto* shared = shared_memory<Half>();  // two tiles of left and right each: one is multiplied, the other comes
  constexpr int kShared = kTile * kRow;
  const Place at = place_of_block(t, kUpdate ? Tiles::matrix : Tiles::square);
  const Entry& m = t.of[at.matrix];
  Half* const memory = t.memory + m.at;
  Half *const x = memory + (from == 0 ? 0 : m.matrix()), *const next = memory + (from == 0 ? m.matrix() : 0);
  Half *const g = memory + 2 * m.matrix(), *const p = g + m.square();
  const Factors f = factors_of<kProduct>(m, x, g, p);

  const Half* left = f.left + int64_t{at.row} * f.terms;
  const Half* right = kUpdate ? f.right + at.column : f.right + int64_t{at.column} * f.terms;
  const int right_row = kUpdate ? f.columns : f.terms;
  const int64_t right_step = kUpdate ? int64_t{kTile} * f.columns : kTile;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, row = warp / 2 * (2 * kBlock),
            column = warp % 2 * (2 * kBlock);

  Mine of_left, of_right;
  load(of_left, left, f.terms), load(of_right, right, right_row);
  store(of_left, shared), store(of_right, shared + kShared);
  __syncthreads();
  Block sums[2][2] = {};
  const int steps = f.terms / kTile;
  for (int step = 0; step < steps; ++step) {
    const Half *a = shared + step % 2 * 2 * kShared, *b = a + kShared;
    if (step + 1 < steps) {
      load(of_left, left + int64_t{step + 1} * kTile, f.terms);
      load(of_right, right + (step + 1) * right_step, right_row);
    }
#pragma unroll
    for (int k = 0; k < kTile; k += kBlock) {
      Left rows[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) load_left(rows[i], a + (row + i * kBlock) * kRow + k, kRow);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        Right columns;
        if constexpr (kUpdate)
          load_right(columns, b + k * kRow + column + j * kBlock, kRow);
        else
          load_right_of_transposed(columns, b + (column + j * kBlock) * kRow + k, kRow);
#pragma unroll
        for (int i = 0; i < 2; ++i) multiply<Half>(sums[i][j], rows[i], columns);
      }
    }
    if (step + 1 < steps) {
      Half* other = shared + (step + 1) % 2 * 2 * kShared;
      store(of_left, other), store(of_right, other + kShared);
    }
    __syncthreads();
  }

  const int64_t corner = int64_t{at.row + row} * f.columns + at.column + column;
  finish(sums, alpha, beta, f.sum + (f.sum == nullptr ? 0 : corner), f.columns);
  Half* const result = kProduct == Product::gram ? g : kProduct == Product::polynomial ? p : next;
  const int group = lane_of_warp() / 4;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int r = at.row + row + i * kBlock, c = at.column + column + j * kBlock;
      if (kUpdate && last) {
        for_elements([&](int n, int e, int half, int k) {
          const int high = r + half * 8 + group, wide = c + k;
          if (high >= m.height() || wide >= m.width()) return;
          m.x[m.tall() ? int64_t{wide} * m.stride + high : int64_t{high} * m.stride + wide] =
              m.scale * sums[i][j][n][e];
        });
      } else {
        const RowPart part = row_part_of<Half>(sums[i][j]);
        *reinterpret_cast<uint4*>(result + int64_t{r + part.row} * f.columns + c + part.column) = part.of;
      }
    }
}

template <Product kProduct>
cudaError_t launch_product(const Table& t, int from, float alpha, float beta, bool last, cudaStream_t stream) {
  const Grid grid{.blocks = tiles_of(t, kProduct == Product::update ? Tiles::matrix : Tiles::square),
                  .threads = kThreads,
                  .shared_bytes = 4 * kTile * kRow * sizeof(Half)};
  return launch(product<kProduct>, grid, stream, t, from, alpha, beta, last);
}

/// Fills the table but for its pointers into the workspace, and returns the number of elements there.
int64_t place(const OrthogonalizeMatrix* matrices, int count, Table& t) {
  int64_t end = 0;
  t.count = count;
  for (int i = 0; i < count; ++i) {
    const OrthogonalizeMatrix& m = matrices[i];
    t.of[i] = {m.x, end, m.rows, m.columns, m.stride, m.scale};
    end += 2 * (t.of[i].matrix() + t.of[i].square());
  }
  return end;
}

}  // namespace

size_t orthogonalize_workspace_bytes(const OrthogonalizeMatrix* matrices, int count) {
  Table t{};
  const int64_t elements = place(matrices, count, t);
  return static_cast<size_t>(count) * kMuonNormBlocks * sizeof(double) + static_cast<size_t>(elements) * sizeof(Half);
}

cudaError_t orthogonalize(const OrthogonalizeArgs& args, cudaStream_t stream) {
  if (args.count < 1 || args.count > kMostMatrices || args.steps < 1) return cudaErrorInvalidValue;
  for (int i = 0; i < args.count; ++i) {
    const OrthogonalizeMatrix& m = args.matrices[i];
    if (m.rows < 1 || m.columns < 1 || m.stride < m.columns) return cudaErrorInvalidValue;
  }
  Table t{};
  place(args.matrices, args.count, t);
  t.sums = static_cast<double*>(args.workspace);
  t.memory = reinterpret_cast<Half*>(t.sums + int64_t{args.count} * kMuonNormBlocks);

  const Grid squares{.blocks = {kMuonNormBlocks, static_cast<unsigned>(args.count)},
                     .threads = kMuonThreads,
                     .shared_bytes = kMuonSharedBytes};
  const Grid tiles{.blocks = tiles_of(t, Tiles::matrix),
                   .threads = kMuonThreads,
                   .shared_bytes = kMuonSharedBytes + kTile * (kTile + 1) * sizeof(float)};
  cudaError_t error = launch(square_sums, squares, stream, t);
  if (error == cudaSuccess) error = launch(begin, tiles, stream, t, args.eps);
  for (int i = 0; i < args.steps && error == cudaSuccess; ++i) {
    const int from = i % 2;
    const bool last = i + 1 == args.steps;
    error = launch_product<Product::gram>(t, from, 1, 0, false, stream);
    if (error == cudaSuccess) error = launch_product<Product::polynomial>(t, from, args.c, args.b, false, stream);
    if (error == cudaSuccess) error = launch_product<Product::update>(t, from, 1, args.a, last, stream);
  }
  return error;
}

}  // namespace ct::kernels
