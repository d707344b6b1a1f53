// Convolution as products of matrices by oneDNN. Images are unfolded a chunk at a time (kernels/unfold.h), so that
// their patches are still in the cache when they are multiplied; a 1x1 convolution of stride 1 needs no unfolding.
//
//   forward   y  [positions][out]  = patches [positions][taps] x w^T [taps][out] + b
//   grad_w    dw [out][taps]      += dy^T [out][positions] x patches, db the same with ones for patches
//   grad_x    patches              = dy [positions][out] x w [out][taps], then folded into dx
#include <algorithm>
#include <optional>

#include "device/cpu/kernels/unfold.h"
#include "device/cpu/onednn.h"
#include "device/cpu/onednn_matmul.h"

namespace ct::cpu {
namespace {

class ProductKernel final : public Kernel {
 public:
  explicit ProductKernel(const ConvTask& task) : task_(task) {
    const ConvDims& d = task.dims;
    positions_ = d.out_h * d.out_w;
    pixels_ = d.in_h * d.in_w;
    taps_ = d.kernel * d.kernel * d.in_channels;
    in_place_ = d.kernel == 1 && d.stride == 1 && d.pad == 0 && !d.planar;
    const int64_t rows = enough_rows(taps_ * element());  // of patches
    const int64_t chunks = in_place_ ? 1 : std::max<int64_t>(1, d.n * positions_ / rows);
    images_ = (d.n + chunks - 1) / chunks;
    first_.emplace(products(images_, Into::overwrite));
    const Into into = task.pass == ConvPass::grad_w ? Into::add : Into::overwrite;
    if (d.n >= 2 * images_) more_.emplace(products(images_, into));
    if (d.n % images_ != 0) last_.emplace(products(d.n % images_, into));
  }

  size_t workspace_bytes() const override { return place(nullptr); }

  void bind(const Resolve& operands, std::byte* workspace) override {
    const auto at = [&](ValueId id) { return id == kNone ? nullptr : operands(id).data; };
    image_ = at(task_.image);
    weights_ = at(task_.weights);
    result_ = at(task_.result);
    bias_ = reinterpret_cast<float*>(at(task_.bias));
    place(workspace);
  }

  void launch() override {
    if (wants_ones()) fill_ones();
    for (int64_t first = 0; first < task_.dims.n; first += images_) {
      const int64_t count = std::min(images_, task_.dims.n - first);
      const Products& by = first == 0 ? *first_ : count == images_ ? *more_ : *last_;
      std::byte* result = result_ + first * positions_ * task_.dims.out_channels * size(task_.type);
      switch (task_.pass) {
        case ConvPass::forward:
          by.main.run(library_, unfolded(first, count), weights_, bias_, result, scratch_);
          break;
        case ConvPass::grad_w:
          by.main.run(library_, result, unfolded(first, count), nullptr, weights_, scratch_);
          if (by.bias) by.bias->run(library_, ones_, result, nullptr, bias_, scratch_);
          break;
        case ConvPass::grad_x:
          by.main.run(library_, result, weights_, nullptr, in_place_ ? image_of(first) : patches_, scratch_);
          if (!in_place_) fold_all(first, count);
      }
    }
    library_.stream.wait();
  }

 private:
  struct Products {
    Product main;
    std::optional<Product> bias;
  };
  static int64_t size(DType type) { return static_cast<int64_t>(size_of(type)); }
  /// Gradients of images are added up in f32.
  DType patch_type() const { return task_.pass == ConvPass::grad_x && !in_place_ ? DType::f32 : task_.type; }
  int64_t element() const { return size(patch_type()); }
  bool wants_ones() const { return task_.pass == ConvPass::grad_w && task_.bias != kNone; }
  /// An image by itself, before it is unfolded or after it is folded, where it does not lie as the program has it.
  bool wants_image() const {
    return task_.dims.planar || (task_.pass == ConvPass::grad_x && !in_place_ && task_.type != DType::f32);
  }

  /// Products of `images` images.
  Products products(int64_t images, Into into) const {
    const int64_t rows = images * positions_, out = task_.dims.out_channels;
    const DType type = task_.type;
    switch (task_.pass) {
      case ConvPass::forward:
        return {{library_,
                 {rows, taps_, type},
                 {taps_, out, type, /*transposed=*/true},
                 {rows, out, type},
                 task_.bias != kNone,
                 into},
                {}};
      case ConvPass::grad_x:
        return {{library_, {rows, out, type}, {out, taps_, type}, {rows, taps_, patch_type()}, /*bias=*/false, into},
                {}};
      case ConvPass::grad_w:
        break;
    }
    Products result{{library_,
                     {out, rows, type, /*transposed=*/true},
                     {rows, taps_, type},
                     {out, taps_, DType::f32},
                     /*bias=*/false,
                     into},
                    {}};
    if (wants_ones())
      result.bias.emplace(library_, Matrix{1, rows, type}, Matrix{rows, out, type}, Matrix{1, out, DType::f32},
                          /*bias=*/false, into);
    return result;
  }

  /// Lays out the workspace from `begin` on, if there is one; its bytes.
  size_t place(std::byte* begin) const {
    size_t bytes = 0;
    const auto take = [&](std::byte*& to, int64_t count) {
      if (begin != nullptr) to = begin + bytes;
      bytes += aligned(static_cast<size_t>(count));
    };
    size_t scratch = 0;
    for (const auto* some : {&first_, &more_, &last_}) {
      if (!*some) continue;
      scratch = std::max(scratch, (*some)->main.scratch_bytes());
      if ((*some)->bias) scratch = std::max(scratch, (*some)->bias->scratch_bytes());
    }
    take(scratch_, static_cast<int64_t>(scratch));
    if (!in_place_) take(patches_, images_ * positions_ * taps_ * element() + kUnfoldSlack);
    if (wants_image()) take(one_image_, pixels_ * task_.dims.in_channels * element() + kUnfoldSlack);
    if (wants_ones()) take(ones_, images_ * positions_ * size(task_.type));
    return bytes;
  }

  std::byte* image_of(int64_t i) const { return image_ + i * pixels_ * task_.dims.in_channels * size(task_.type); }

  /// Calls with_type(float()) or with_type(uint16_t()), as activations in memory are.
  template <class WithType>
  void by_type(WithType with_type) const {
    task_.type == DType::bf16 ? with_type(uint16_t()) : with_type(float());
  }
  void fill_ones() const {
    const int64_t n = images_ * positions_;
    by_type([&]<class T>(T) {
      constexpr auto kOne = sizeof(T) == 2 ? T(0x3F80) : T(1);
      std::fill_n(reinterpret_cast<T*>(ones_), n, kOne);
    });
  }
  /// The patches of some images, in memory.
  std::byte* unfolded(int64_t first, int64_t count) const {
    if (in_place_) return image_of(first);
    by_type([&]<class T>(T) {
      for (int64_t i = 0; i < count; ++i) {
        auto* image = reinterpret_cast<T*>(image_of(first + i));
        if (task_.dims.planar) {
          to_channels_last(image, task_.dims.in_channels, pixels_, reinterpret_cast<T*>(one_image_));
          image = reinterpret_cast<T*>(one_image_);
        }
        unfold(task_.dims, image, reinterpret_cast<T*>(patches_) + i * positions_ * taps_);
      }
    });
    return patches_;
  }
  void fold_all(int64_t first, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      const auto* rows = reinterpret_cast<const float*>(patches_) + i * positions_ * taps_;
      auto* image = reinterpret_cast<float*>(wants_image() ? one_image_ : image_of(first + i));
      fold(task_.dims, rows, image);
      if (wants_image())
        convert(image, reinterpret_cast<uint16_t*>(image_of(first + i)), pixels_ * task_.dims.in_channels);
    }
  }

  ConvTask task_;
  int64_t positions_, pixels_, taps_;  // of an image's results, of an image, of a patch
  bool in_place_;                      // an image is its own patches
  int64_t images_;                     // of a chunk
  Library library_;
  std::optional<Products> first_, more_, last_;  // of the first chunk, of others as large, of what is left
  std::byte *image_ = nullptr, *weights_ = nullptr, *result_ = nullptr;
  float* bias_ = nullptr;
  mutable std::byte *scratch_ = nullptr, *patches_ = nullptr, *one_image_ = nullptr, *ones_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> prepare_product(const ConvTask& task) { return std::make_unique<ProductKernel>(task); }

}  // namespace ct::cpu
