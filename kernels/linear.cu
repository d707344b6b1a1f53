#include <algorithm>
#include <climits>
#include <tuple>
#include <type_traits>

#include "last_block.h"
#include "linear.h"
#include "loss_rows.h"

namespace ct::kernels {
namespace {

constexpr int kMaxThreads = 256;
constexpr int64_t kEnoughBlocks = 128;  // about as many as a GPU has multiprocessors: below, blocks are made smaller
constexpr int64_t kMaxSize = int64_t{1} << 30;

/// row[i .. i + kSize), of which those before `end` count.
template <class T, bool Wide>
__device__ __forceinline__ Pack<T> load_pack(const T* row, int i, int end) {
  if constexpr (Wide) {
    return *reinterpret_cast<const Pack<T>*>(row + i);
  } else {
    Pack<T> pack;
    for (int k = 0; k < Pack<T>::kSize; ++k) pack.at[k] = i + k < end ? row[i + k] : from_float<T>(0);
    return pack;
  }
}

// ---- y: a warp for kImages rows of x and some rows of w, lanes along `in`

constexpr int kImages = 4;

/// The sums over all lanes of Sums values (a power of two up to 32) each: lane l gets number l / (32 / Sums). Half of
/// the values go to the other half of the lanes each time, so that nothing is added twice.
template <int Distance = kWarp / 2, int Sums>
__device__ __forceinline__ float sums_over_lanes(const float (&sums)[Sums], int lane) {
  constexpr int kHalf = (Sums + 1) / 2;
  const bool upper = Sums > 1 && (lane & Distance) != 0;
  float half[kHalf];
#pragma unroll
  for (int k = 0; k < kHalf; ++k) {
    const float kept = upper ? sums[Sums - kHalf + k] : sums[k], given = upper ? sums[k] : sums[Sums - kHalf + k];
    half[k] = kept + __shfl_xor_sync(kAllLanes, given, Distance);
  }
  if constexpr (Distance > 1)
    return sums_over_lanes<Distance / 2>(half, lane);
  else
    return half[0];
}

template <class T, class Y, int Outputs, bool Wide>
__device__ __forceinline__ void output_tile(const LinearArgs& a, unsigned tiles) {
  constexpr int V = Pack<T>::kSize, kSums = kImages * Outputs, kLanesPerSum = kWarp / kSums;
  constexpr int kInFlight = 4 / Outputs;  // packs of each row that are read before the first is used
  const int lane = static_cast<int>(threadIdx.x % kWarp), in = static_cast<int>(a.in);
  const unsigned tile = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  const int64_t n = int64_t{tile / tiles} * kImages, o = int64_t{tile % tiles} * Outputs;
  if (n >= a.n) return;

  // What this lane is going to store.
  const int64_t image = n + lane / kLanesPerSum / Outputs, output = o + lane / kLanesPerSum % Outputs;
  const float b = a.b != nullptr && output < a.out ? a.b[output] : 0;

  // Rows that do not exist are read as the last one, and not stored.
  const T *x[kImages], *w[Outputs];
  for (int k = 0; k < kImages; ++k) x[k] = static_cast<const T*>(a.x) + min(n + k, a.n - 1) * a.x_stride;
  for (int k = 0; k < Outputs; ++k) w[k] = static_cast<const T*>(a.w) + min(o + k, a.out - 1) * a.w_stride;
  float sums[kSums] = {};
  if (o < a.out) {
    for (int first = lane * V; first < in; first += kInFlight * kWarp * V) {
      Pack<T> xs[kInFlight][kImages], ws[kInFlight][Outputs];
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        const int i = first + u * kWarp * V, at = i < in ? i : first;
        for (int k = 0; k < Outputs; ++k) ws[u][k] = load_pack<T, Wide>(w[k], at, in);
        for (int k = 0; k < kImages; ++k) xs[u][k] = load_pack<T, Wide>(x[k], at, in);
      }
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        const auto add = [&](int v) {
#pragma unroll
          for (int k = 0; k < kSums; ++k)
            sums[k] = __fmaf_rn(to_float(xs[u][k / Outputs].at[v]), to_float(ws[u][k % Outputs].at[v]), sums[k]);
        };
        const int left = in - (first + u * kWarp * V);
        if (left >= V) {
#pragma unroll
          for (int v = 0; v < V; ++v) add(v);
        } else {
          for (int v = 0; v < V; ++v)
            if (v < left) add(v);
        }
      }
    }
  }
  float y = sums_over_lanes(sums, lane) + b;
  if (a.relu && y <= 0) y = 0;
  if (lane % kLanesPerSum == 0 && image < a.n && output < a.y_stride)
    static_cast<Y*>(a.y)[image * a.y_stride + output] = from_float<Y>(output < a.out ? y : 0);
}

/// What follows when the block has stored its outputs: nothing, or by the last block the loss of the rows.
struct Nothing {
  static constexpr int kLeastWarps = 1;  // of a block
  static constexpr size_t kShared = 0;
  __device__ void operator()() const {}
};
struct Loss {
  static constexpr int kLeastWarps = kLossWarps;
  static constexpr size_t kShared = kLossWarps * sizeof(int);
  SoftmaxCrossEntropyArgs args;
  __device__ void operator()() const {
    if (is_last_block(args.tickets, gridDim.x)) loss_of_rows<kLossClasses / kWarp>(args, 0);
  }
};

template <class T, class Y, int Outputs, bool Wide, class Then>
__global__ void __launch_bounds__(kMaxThreads) outputs(LinearArgs a, unsigned tiles, Then then) {
  wait_for_previous();
  output_tile<T, Y, Outputs, Wide>(a, tiles);
  then();
}

template <class T, class Y, int Outputs, bool Wide, class Then>
cudaError_t launch_outputs(const LinearArgs& a, const Then& then, cudaStream_t stream) {
  const int64_t row_tiles = divide_up<int64_t>(a.y_stride, Outputs);
  const int64_t tiles = row_tiles * divide_up<int64_t>(a.n, kImages);
  if (tiles > INT_MAX) return cudaErrorInvalidValue;
  int warps = Then::kLeastWarps;
  while (2 * warps * kWarp <= kMaxThreads && divide_up<int64_t>(tiles, 2 * warps) >= kEnoughBlocks) warps *= 2;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(tiles, warps)),
                  .threads = static_cast<unsigned>(warps * kWarp),
                  .shared_bytes = Then::kShared};
  return launch_early(outputs<T, Y, Outputs, Wide, Then>, grid, stream, a, static_cast<unsigned>(row_tiles), then);
}

// ---- the gradients: lanes over the terms, a thread for kRows rows and a pack of columns

constexpr int kRows = 4;
constexpr int kTermsInFlight = 4;

/// out[r][c] = sum over k of a[r * a_row + k * a_term] b[k][c]; unless they are null, row_sums[r] = sum over k of a
/// likewise, and gated[r][c] = gate[r][c] <= 0 ? 0 : out[r][c]. Rows of gated are as far apart as those of out.
struct Product {
  int64_t rows, terms, columns;
  int64_t a_row, a_term, b_stride, out_stride;
  const void *a, *b;
  void* out;
  float* row_sums;
  const void* gate = nullptr;
  void* gated = nullptr;
  int64_t gate_stride = 0;
};

/// How blocks share out a product: strips of `width` packs of columns, then rows; `lanes` over the terms. Sums depend
/// on the lanes alone.
struct Cut {
  int lanes, width_bits, strips;
  int64_t blocks;
  int width() const { return 1 << width_bits; }
  int threads() const { return width() * lanes; }
  /// Floats of shared memory, for packs of V columns.
  int floats(int V) const { return lanes == 1 ? 0 : kRows * lanes * (width() * V + 1); }
};

/// Counted in bytes: nvcc takes 16-byte stores apart whose address counts elements.
template <class T>
__device__ __forceinline__ T* element(void* base, int64_t index) {
  return reinterpret_cast<T*>(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(T)));
}

/// values[0 .. N), or as many as there is room for, to `at`.
template <bool Wide, class T, int N>
__device__ __forceinline__ void store_row(T* at, const float (&values)[N], int64_t room) {
  if constexpr (Wide) {
    constexpr int kSize = Pack<T>::kSize;
    static_assert(N % kSize == 0);
#pragma unroll
    for (int i = 0; i < N; i += kSize) {
      Pack<T> pack;
      for (int k = 0; k < kSize; ++k) pack.at[k] = from_float<T>(values[i + k]);
      reinterpret_cast<Pack<T>*>(at)[i / kSize] = pack;
    }
  } else {
    for (int k = 0; k < N; ++k)
      if (k < room) at[k] = from_float<T>(values[k]);
  }
}

/// sum = the sum over `lanes` of from[lane * stride ..].
template <int N>
__device__ __forceinline__ void sum_lanes(const float* from, int lanes, int stride, float (&sum)[N]) {
  load_floats(from, sum);
  for (int lane = 1; lane < lanes; ++lane) {
    float term[N];
    load_floats(from + lane * stride, term);
    for (int k = 0; k < N; ++k) sum[k] += term[k];
  }
}

/// Block number `block` of a product; a warp's threads are neighbours in columns, then in lanes. MayGate: there may be
/// a gate.
template <class A, class B, class Out, bool Wide, bool MayGate>
__device__ __forceinline__ void multiply(const Product& p, const Cut& cut, int block) {
  constexpr int V = Pack<B>::kSize;
  const int lanes = cut.lanes, width = 1 << cut.width_bits, terms = static_cast<int>(p.terms);
  const int x = static_cast<int>(threadIdx.x) & (width - 1), lane = static_cast<int>(threadIdx.x) >> cut.width_bits;
  const int64_t row = static_cast<int64_t>(block / cut.strips) * kRows;
  const int64_t column = (int64_t{block % cut.strips} * width + x) * V;

  // Rows and columns that do not exist are read as others, and not stored.
  const A* a[kRows];
  for (int r = 0; r < kRows; ++r) a[r] = static_cast<const A*>(p.a) + min(row + r, p.rows - 1) * p.a_row;
  const int at_column = column < p.columns ? static_cast<int>(column) : 0;
  // Of the rows that this thread stores: all, or one.
  const int64_t first_row = lanes == 1 ? row : row + lane;
  Pack<Out> gates[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    if (MayGate && p.gate != nullptr && (lanes == 1 || r == 0))
      gates[r] = load_pack<Out, Wide>(static_cast<const Out*>(p.gate) + min(first_row + r, p.rows - 1) * p.gate_stride,
                                      at_column, static_cast<int>(p.columns));
  float sums[kRows][V] = {}, row_sums[kRows] = {};
  for (int first = lane; first < terms; first += kTermsInFlight * lanes) {
    A as[kTermsInFlight][kRows];
    Pack<B> bs[kTermsInFlight];
#pragma unroll
    for (int u = 0; u < kTermsInFlight; ++u) {
      const int64_t k = first + u * lanes < terms ? first + u * lanes : first;
      bs[u] = load_pack<B, Wide>(static_cast<const B*>(p.b) + k * p.b_stride, at_column, static_cast<int>(p.columns));
      for (int r = 0; r < kRows; ++r) as[u][r] = a[r][k * p.a_term];
    }
#pragma unroll
    for (int u = 0; u < kTermsInFlight; ++u) {
      if (first + u * lanes >= terms) continue;
      for (int r = 0; r < kRows; ++r) {
        const float factor = to_float(as[u][r]);
        row_sums[r] += factor;
        for (int v = 0; v < V; ++v) sums[r][v] = __fmaf_rn(factor, to_float(bs[u].at[v]), sums[r][v]);
      }
    }
  }

  const auto store = [&](int r, const Pack<Out>& gate, float(&sum)[V]) {
    for (int v = 0; v < V; ++v) sum[v] = column + v < p.columns ? sum[v] : 0;
    if (row + r >= p.rows || column >= p.out_stride) return;
    const int64_t at = (row + r) * p.out_stride + column;
    store_row<Wide>(element<Out>(p.out, at), sum, p.out_stride - column);
    if constexpr (MayGate) {
      if (p.gate == nullptr) return;
      for (int v = 0; v < V; ++v) sum[v] = to_float(gate.at[v]) <= 0 ? 0 : sum[v];
      store_row<Wide>(element<Out>(p.gated, at), sum, p.out_stride - column);
    }
  };
  const auto store_row_sum = [&](int r, float sum) {
    if (p.row_sums != nullptr && row + r < p.rows && column == 0) p.row_sums[row + r] = sum;
  };
  if (lanes == 1) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      store(r, gates[r], sums[r]);
      store_row_sum(r, row_sums[r]);
    }
    return;
  }
  auto* shared = shared_memory<float>();                    // [kRows][lanes][width][V]
  float* shared_rows = shared + kRows * lanes * width * V;  // [kRows][lanes]
  const int stride = width * V;
  for (int r = 0; r < kRows; ++r) {
    auto* to = reinterpret_cast<Pack<float>*>(shared + (r * lanes + lane) * stride) + x * (V / 4);
#pragma unroll
    for (int v = 0; v < V / 4; ++v)
      to[v] = {{sums[r][4 * v], sums[r][4 * v + 1], sums[r][4 * v + 2], sums[r][4 * v + 3]}};
    if (x == 0) shared_rows[r * lanes + lane] = row_sums[r];
  }
  __syncthreads();
  if (lane < kRows) {  // now one of a row each
    float sum[V], row_sum[1];
    sum_lanes(shared + lane * lanes * stride + x * V, lanes, stride, sum);
    store(lane, gates[0], sum);
    sum_lanes(shared_rows + lane * lanes, lanes, 1, row_sum);
    store_row_sum(lane, row_sum[0]);
  }
}

template <class A, class B, class Out, bool Wide>
__global__ void __launch_bounds__(kMaxThreads) product(Product p, Cut cut) {
  wait_for_previous();
  multiply<A, B, Out, Wide, /*MayGate=*/false>(p, cut, static_cast<int>(blockIdx.x));
}

/// Both gradients, of which neither reads what the other writes.
template <class T, class Y, bool Wide>
__global__ void __launch_bounds__(kMaxThreads) both_products(Product dx, Cut dx_cut, Product dw, Cut dw_cut) {
  wait_for_previous();
  const int block = static_cast<int>(blockIdx.x), of_dx = static_cast<int>(dx_cut.blocks);
  if (block < of_dx)
    multiply<Y, T, T, Wide, /*MayGate=*/true>(dx, dx_cut, block);
  else
    multiply<Y, T, float, Wide, /*MayGate=*/false>(dw, dw_cut, block - of_dx);
}

int64_t packs(const Product& p, int V) { return divide_up<int64_t>(p.out_stride, V); }

Cut with_width(Cut cut, int width_bits, const Product& p, int V) {
  cut.width_bits = width_bits;
  const int64_t strips = divide_up<int64_t>(packs(p, V), cut.width());
  cut.strips = static_cast<int>(strips);
  cut.blocks = divide_up<int64_t>(p.rows, kRows) * strips;
  return cut;
}

/// For packs of V columns: as wide as leaves enough blocks.
Cut cut_for(const Product& p, int V) {
  Cut cut = {};
  cut.lanes = p.terms <= 8 ? 1 : p.terms <= 64 ? 8 : kWarp;
  int bits = 0;
  while (cut.lanes << bits < kWarp) ++bits;
  cut = with_width(cut, bits, p, V);
  while (2 * cut.threads() <= kMaxThreads) {
    const Cut wider = with_width(cut, cut.width_bits + 1, p, V);
    if (wider.blocks < kEnoughBlocks) break;
    cut = wider;
  }
  return cut;
}

bool takes_packs(const Product& p, int V) {
  return aligned_16(p.b, p.out, p.gate, p.gated) && p.b_stride % V == 0 && p.out_stride % V == 0 &&
         p.gate_stride % V == 0;
}

Grid grid_of(int64_t blocks, int threads, int floats) {
  return {.blocks = static_cast<unsigned>(blocks),
          .threads = static_cast<unsigned>(threads),
          .shared_bytes = static_cast<size_t>(floats) * sizeof(float)};
}

template <class A, class B, class Out>
cudaError_t launch_product(const Product& p, cudaStream_t stream) {
  constexpr int V = Pack<B>::kSize;
  const Cut cut = cut_for(p, V);
  if (cut.blocks > INT_MAX) return cudaErrorInvalidValue;
  const auto kernel = takes_packs(p, V) ? product<A, B, Out, /*Wide=*/true> : product<A, B, Out, /*Wide=*/false>;
  return launch_early(kernel, grid_of(cut.blocks, cut.threads(), cut.floats(V)), stream, p, cut);
}

/// In blocks of the smaller size of the two.
template <class T, class Y>
cudaError_t launch_both(const Product& dx, const Product& dw, cudaStream_t stream) {
  constexpr int V = Pack<T>::kSize;
  Cut dx_cut = cut_for(dx, V), dw_cut = cut_for(dw, V);
  while (dx_cut.threads() > dw_cut.threads()) dx_cut = with_width(dx_cut, dx_cut.width_bits - 1, dx, V);
  while (dw_cut.threads() > dx_cut.threads()) dw_cut = with_width(dw_cut, dw_cut.width_bits - 1, dw, V);
  const int64_t blocks = dx_cut.blocks + dw_cut.blocks;
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  const auto kernel =
      takes_packs(dx, V) && takes_packs(dw, V) ? both_products<T, Y, /*Wide=*/true> : both_products<T, Y, false>;
  const int floats = std::max(dx_cut.floats(V), dw_cut.floats(V));
  return launch_early(kernel, grid_of(blocks, dx_cut.threads(), floats), stream, dx, dx_cut, dw, dw_cut);
}

/// call(T{}, Y{}) with the element types of `type` and `y_type`.
template <class Call>
cudaError_t with_types(Type type, Type y_type, Call call) {
  if (y_type != type && y_type != Type::f32) return cudaErrorInvalidValue;
  return with_type(type, [&]<class T>(T t) { return y_type == Type::f32 ? call(t, float{}) : call(t, t); });
}

template <class Args>
bool sensible(const Args& a) {
  return a.n >= 0 && a.n <= kMaxSize && a.in > 0 && a.out > 0;
}
/// The stride of rows of `length`.
bool sensible(int64_t stride, int64_t length) { return stride >= length && stride <= kMaxSize; }

bool valid(const LinearGradXArgs& a) {
  return sensible(a) && sensible(a.w_stride, a.in) && sensible(a.dy_stride, a.out) && sensible(a.dx_stride, a.in);
}
bool valid(const LinearGradWArgs& a) {
  return sensible(a) && sensible(a.x_stride, a.in) && sensible(a.dy_stride, a.out) && sensible(a.dw_stride, a.in);
}

Product product_of(const LinearGradXArgs& a) {
  return {.rows = a.n,
          .terms = a.out,
          .columns = a.in,
          .a_row = a.dy_stride,
          .a_term = 1,
          .b_stride = a.w_stride,
          .out_stride = a.dx_stride,
          .a = a.dy,
          .b = a.w,
          .out = a.dx,
          .row_sums = nullptr};
}
Product product_of(const LinearGradWArgs& a) {
  return {.rows = a.out,
          .terms = a.n,
          .columns = a.in,
          .a_row = 1,
          .a_term = a.dy_stride,
          .b_stride = a.x_stride,
          .out_stride = a.dw_stride,
          .a = a.dy,
          .b = a.x,
          .out = a.dw,
          .row_sums = a.db};
}

}  // namespace

template <class Then>
static cudaError_t linear_then(const LinearArgs& a, const Then& then, cudaStream_t stream) {
  if (!sensible(a) || !sensible(a.x_stride, a.in) || !sensible(a.w_stride, a.in) || !sensible(a.y_stride, a.out))
    return cudaErrorInvalidValue;
  return with_types(a.type, a.y_type, [&]<class T, class Y>(T, Y) {
    if constexpr (std::is_same_v<Then, Loss> && !std::is_same_v<Y, float>) return cudaErrorInvalidValue;
    constexpr int V = Pack<T>::kSize;
    // Warps of one output each while they find room on the GPU; then larger tiles, which read less.
    const bool small = a.y_stride * divide_up<int64_t>(a.n, kImages) <= 2048;
    if (!aligned_16(a.x, a.w) || a.x_stride % V != 0 || a.w_stride % V != 0)
      return launch_outputs<T, Y, /*Outputs=*/1, /*Wide=*/false>(a, then, stream);
    return small ? launch_outputs<T, Y, /*Outputs=*/1, /*Wide=*/true>(a, then, stream)
                 : launch_outputs<T, Y, /*Outputs=*/4, /*Wide=*/true>(a, then, stream);
  });
}

cudaError_t linear(const LinearArgs& a, cudaStream_t stream) { return linear_then(a, Nothing(), stream); }

cudaError_t linear_loss(const LinearLossArgs& a, cudaStream_t stream) {
  const LinearArgs& l = a.linear;
  if (l.n > kLossRows || l.out < 1 || l.out > kLossClasses || a.loss.tickets == nullptr) return cudaErrorInvalidValue;
  if (a.loss.logits != l.y || a.loss.n != l.n || a.loss.classes != l.out || a.loss.stride != l.y_stride)
    return cudaErrorInvalidValue;
  return linear_then(l, Loss{a.loss}, stream);
}

cudaError_t linear_grad_input(const LinearGradXArgs& a, cudaStream_t stream) {
  if (!valid(a)) return cudaErrorInvalidValue;
  return with_types(a.type, a.y_type,
                    [&]<class T, class Y>(T, Y) { return launch_product<Y, T, T>(product_of(a), stream); });
}

cudaError_t linear_grad_weights(const LinearGradWArgs& a, cudaStream_t stream) {
  if (!valid(a)) return cudaErrorInvalidValue;
  return with_types(a.type, a.y_type,
                    [&]<class T, class Y>(T, Y) { return launch_product<Y, T, float>(product_of(a), stream); });
}

cudaError_t linear_grad(const LinearGradArgs& a, cudaStream_t stream) {
  const LinearGradWArgs& weights = a.weights;
  const LinearGradXArgs& input = a.input;
  const auto shape = [](const auto& args) { return std::tuple(args.type, args.y_type, args.n, args.in, args.out); };
  if (!valid(weights) || !valid(input) || shape(weights) != shape(input)) return cudaErrorInvalidValue;
  Product dx = product_of(input);
  if (a.dz != nullptr) {
    dx.gate = weights.x;
    dx.gate_stride = weights.x_stride;
    dx.gated = a.dz;
  }
  return with_types(input.type, input.y_type,
                    [&]<class T, class Y>(T, Y) { return launch_both<T, Y>(dx, product_of(weights), stream); });
}

}  // namespace ct::kernels
