// Every function of cuDNN is looked up in the library that was opened: the program links none of it.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB

#include <cudnn_frontend.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "device/cuda/check.h"
#include "device/cuda/convolution.h"
#include "device/cuda/cuda_kernel.h"
#include "device/cuda/handle.h"
#include "device/cuda/library_names.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda/recording.h"
#include "kernels/elementwise.h"

// The frontend declares it and leaves the definition to the program.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace ct::cuda {

namespace fe = cudnn_frontend;

namespace {

constexpr size_t kWorkspaceLimit = size_t{1} << 30;
constexpr int kCandidates = 8;  // that autotuning times, of those that heuristics rank first

std::string one_line(std::string text) {
  constexpr size_t kLongest = 300;  // cuDNN lists every engine that it tried
  std::ranges::replace(text, '\n', ' ');
  return text.substr(0, kLongest);
}

}  // namespace

static void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  const bool setup = status == CUDNN_STATUS_NOT_INITIALIZED || status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH ||
                     status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
  fail(memory  ? ExitCode::memory
       : setup ? ExitCode::usage
               : ExitCode::bug,
       "cuDNN: ", call, ": ", fe::detail::get_error_string(status), " ", one_line(fe::detail::get_last_error_string_()),
       memory  ? ": end other programs on the GPU, or compute fewer images at a time"
       : setup ? ": check that all of cuDNN's files are of one version and that the NVIDIA driver is not older"
               : "");
}

static void check(fe::error_t error, const char* call) {
  if (error.is_bad()) fail(ExitCode::bug, "cuDNN: ", call, ": ", one_line(error.get_message()));
}

namespace {

/// An operand of a convolution: dimensions in cuDNN's order, [n][c][h][w], wherever the elements lie.
struct Image {
  int64_t uid;
  std::array<int64_t, 4> dims;
  bool planar;
  DType dtype;
};

struct Images {
  Image image, weights, result;
};

/// cuDNN's engines write dw in the type of x and dy only, so it is f32 after a cast().
Images images(const ConvolutionShape& s) {
  return {.image = {1, {s.n, s.in_channels, s.in_h, s.in_w}, s.planar, s.dtype},
          .weights = {2, {s.out_channels, s.in_channels, s.kernel, s.kernel}, /*planar=*/false, s.dtype},
          .result = {3, {s.n, s.out_channels, s.out_h, s.out_w}, /*planar=*/false, s.dtype}};
}

size_t bytes_of(const Image& image) {
  const auto [n, c, h, w] = image.dims;
  return static_cast<size_t>(n * c * h * w) * size_of(image.dtype);
}

void set(fe::graph::Tensor_attributes& tensor, const Image& image) {
  const auto [n, c, h, w] = image.dims;
  const auto type = image.dtype == DType::f32    ? fe::DataType_t::FLOAT
                    : image.dtype == DType::bf16 ? fe::DataType_t::BFLOAT16
                                                 : fe::DataType_t::HALF;
  const std::vector<int64_t> strides =
      image.planar ? std::vector{c * h * w, h * w, w, int64_t{1}} : std::vector{h * w * c, int64_t{1}, w * c, c};
  tensor.set_uid(image.uid).set_dim({n, c, h, w}).set_stride(strides).set_data_type(type);
}

template <class Attributes>
Attributes window(const ConvolutionShape& s) {
  return Attributes().set_padding({s.pad, s.pad}).set_stride({s.stride, s.stride}).set_dilation({1, 1});
}

/// An engine of cuDNN and its knobs. The frontend's own numbers of knobs leave out some that engines still have, so
/// these are cuDNN's, as in the names of plans: eng49_k2=5_k14=4.
struct Engine {
  int64_t number = -1;
  std::vector<std::pair<cudnnBackendKnobType_t, int64_t>> knobs;
};

Engine engine_named(const std::string& name) {
  Engine engine;
  std::istringstream text(name);
  char letter = 0;
  text >> letter >> letter >> letter >> engine.number;
  int type = 0;
  int64_t value = 0;
  while (text >> letter >> letter >> type >> letter >> value)
    engine.knobs.emplace_back(static_cast<cudnnBackendKnobType_t>(type), value);
  return engine;
}

/// Is it what was asked for? An engine may name knobs beside those that it was given.
bool is(const Engine& found, const Engine& wanted) {
  return found.number == wanted.number && std::ranges::all_of(wanted.knobs, [&](const auto& knob) {
           return std::ranges::find(found.knobs, knob) != found.knobs.end();
         });
}

/// One convolution, and the plans for it. What the frontend would do with calls of CUDA's runtime is done without: it
/// would look for a runtime of its own beside the one that the program is linked with.
class Graph : public fe::graph::Graph {
 public:
  /// device: of the GPU to plan for, if it is not the one of build_operation_graph()'s handle.
  Graph(ConvolutionPass pass, const ConvolutionShape& shape, const std::shared_ptr<fe::DeviceProperties>& device) {
    if (device) set_device_properties(device);
    set_compute_data_type(fe::DataType_t::FLOAT);
    set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);  // see Convolution
    const auto [image, weights, result] = images(shape);
    const auto input = [&](const Image& operand) {
      fe::graph::Tensor_attributes attributes;
      set(attributes, operand);
      return tensor(attributes);
    };
    const auto output = [&](const std::shared_ptr<fe::graph::Tensor_attributes>& attributes, const Image& operand) {
      set(*attributes, operand);
      attributes->set_output(true);
    };
    switch (pass) {
      case ConvolutionPass::forward:
        output(conv_fprop(input(image), input(weights), window<fe::graph::Conv_fprop_attributes>(shape)), result);
        break;
      case ConvolutionPass::grad_input:
        output(conv_dgrad(input(result), input(weights), window<fe::graph::Conv_dgrad_attributes>(shape)), image);
        break;
      case ConvolutionPass::grad_weights:
        output(conv_wgrad(input(result), input(image), window<fe::graph::Conv_wgrad_attributes>(shape)), weights);
        break;
    }
    deselect_workspace_greater_than(kWorkspaceLimit);
    CT_CUDA(validate());
  }

  /// Adds the plan of one engine.
  void add(const Engine& choice) {
    namespace cudnn = fe::detail;
    cudnn::backend_descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    CT_CUDA(cudnn::create_engine(engine, choice.number, operation_graph->get_raw_desc(), device_properties));
    std::vector<cudnn::backend_descriptor> knobs;
    for (const auto& [type, value] : choice.knobs) {
      const auto knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).get_ptr();
      CT_CUDA(cudnn::set_attribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type));
      CT_CUDA(cudnn::set_attribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value));
      CT_CUDA(cudnn::finalize(knob));
    }
    auto config = fe::make_shared_backend_pointer(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CT_CUDA(cudnn::create_engine_config(config, engine, knobs));
    plans.enqueue_engine_configs({config});
    CT_CUDA(plans.query_properties());
  }

  /// Leaves out engines that give other bits from run to run, or less than f32 sums of the operands as they are. cuDNN
  /// notes which of the kernels that it contains do so, but not of each kernel that it compiles for a plan.
  void keep_reproducible(DType dtype, bool tf32) {
    using Note = fe::NumericalNote_t;
    deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION});
    deselect_numeric_notes({Note::NONDETERMINISTIC, Note::DOWN_CONVERT_INPUTS, Note::REDUCED_PRECISION_REDUCTION,
                            Note::WINOGRAD_TILE_6x6, Note::WINOGRAD_TILE_13x13});
    if (dtype == DType::f32 && !tf32) deselect_numeric_notes({Note::TENSOR_CORE});
  }

  /// Why a plan cannot be had; empty: it is built.
  std::string build(int64_t index) {
    fe::error_t error = build_plan_at_index(index);
    return error.is_bad() ? one_line(error.get_message()) : "";
  }

  std::string name(int64_t index) const {
    std::string name;
    CT_CUDA(get_plan_name_at_index(index, name));
    return name;
  }

  /// Frees the other plans, which hold kernels on the GPU.
  void keep_only(int64_t index) {
    for (size_t i = 0; i < plans.execution_plans.size(); ++i)
      if (i != static_cast<size_t>(index)) plans.execution_plans[i].reset();
  }

  Convolution::Traits traits(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    const auto has = [](const auto& notes, auto note) { return std::ranges::count(notes, note) > 0; };
    return {.tensor_cores = has(plans.numeric_notes[i], fe::NumericalNote_t::TENSOR_CORE),
            .compiled_here = has(plans.behavior_notes[i], fe::BehaviorNote_t::RUNTIME_COMPILATION)};
  }

  size_t workspace_bytes(int64_t index) const { return static_cast<size_t>(get_workspace_size_plan_at_index(index)); }

  /// Image, weights and result, as the pass computes one from the others.
  void run(cudnnHandle_t handle, int64_t index, const std::array<void*, 3>& operands, void* workspace) {
    CT_CUDA(fe::detail::execute(handle, plans.execution_plans[static_cast<size_t>(index)].get(), operands.data(), uids_,
                                workspace));
  }

 private:
  const std::vector<int64_t> uids_ = {1, 2, 3};
};

const char* result_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return "the ";
    case ConvolutionPass::grad_input:
      return "the input's gradient of the ";
    case ConvolutionPass::grad_weights:
      return "the weights' gradient of the ";
  }
  fail(ExitCode::bug, "no such pass");
}

std::string name(ConvolutionPass pass, const ConvolutionShape& s) {
  return str(result_of(pass), name_of(s.dtype), " convolution of ", s.n, " ", s.planar ? "planar " : "", "images, ",
             s.in_channels, " x ", s.in_h, " x ", s.in_w, " -> ", s.out_channels, " x ", s.out_h, " x ", s.out_w,
             ", kernel ", s.kernel, ", stride ", s.stride, ", padding ", s.pad);
}

/// What a Convolution needs of its Convolutions, for as long as it lives.
class Session {
 public:
  explicit Session(const LibraryOptions& options) : options_(options), library_("cuDNN", kCudnnFile, options.places) {
    // Backends of several threads set it alike.
    static std::once_flag set;
    std::call_once(set, [&] { fe::cudnn_dlhandle = library_.handle(); });
    if (version() < kOldestCudnn)
      fail(ExitCode::usage, description(), " (", library_.path(), ") is too old: install cuDNN ", text(kOldestCudnn),
           " or a later 9, and name its folder by --cuda-path");
    open_what_engines_need();
    if (const std::string& gpu = options.planned_for; !gpu.empty()) {
      planned_for_ = std::make_shared<fe::DeviceProperties>();
      CT_CUDA(planned_for_->deserialize({gpu.begin(), gpu.end()}));
      return;
    }
    cudnnHandle_t handle = nullptr;
    CT_CUDA(fe::detail::create_handle(&handle));
    handle_ = Handle<cudnnHandle_t, fe::detail::destroy_handle>(handle);
    CT_CUDA(fe::detail::set_stream(handle_, options.stream));
  }

  const LibraryOptions& options() const { return options_; }
  /// Null with planned_for().
  cudnnHandle_t handle() const { return handle_; }
  const std::shared_ptr<fe::DeviceProperties>& planned_for() const { return planned_for_; }
  std::string description() const { return str("cuDNN ", text(version())); }

 private:
  static size_t version() { return fe::detail::get_backend_version(); }
  static std::string text(size_t version) { return str(version / 10000, ".", version / 100 % 100, ".", version % 100); }

  /// Some engines call cuBLASLt, which cuDNN would look for in fewer places; without cuBLASLt it has other engines.
  /// cuDNN opens NVRTC for every plan, which takes tens of milliseconds unless it is open already.
  void open_what_engines_need() {
    const auto built_for = library_.function<size_t()>("cudnnGetCudartVersion")() / 1000;
    open_nvrtc_for(built_for, options_.places);
    try {
      Library("cuBLASLt", str("libcublasLt.so.", built_for), options_.places);
    } catch (const Error&) {
    }
  }

  LibraryOptions options_;
  Library library_;
  Handle<cudnnHandle_t, fe::detail::destroy_handle> handle_;
  std::shared_ptr<fe::DeviceProperties> planned_for_;  // null: the GPU here
};

class CudnnConvolution final : public Convolution {
 public:
  CudnnConvolution(std::shared_ptr<const Session> session, ConvolutionPass pass, const ConvolutionShape& shape)
      : session_(std::move(session)),
        shape_(shape),
        graph_(std::make_unique<Graph>(pass, shape, session_->planned_for())) {
    CT_CUDA(graph_->build_operation_graph(session_->handle()));
    if (pass == ConvolutionPass::grad_weights && shape.dtype != DType::f32) {
      const Image weights = images(shape).weights;
      cast_bytes_ = static_cast<size_t>(round_up(static_cast<int64_t>(bytes_of(weights)), 256));
      cast_ = {.from = type_of(shape.dtype),
               .to = kernels::Type::f32,
               .n = static_cast<int64_t>(bytes_of(weights) / size_of(shape.dtype))};
    }
  }

  /// Takes what heuristics, or clocks, say. The reason, where there is no plan at all.
  std::string choose() {
    fe::error_t error = graph_->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    if (error.is_bad()) return one_line(error.get_message());
    graph_->keep_reproducible(shape_.dtype, session_->options().tf32);
    const size_t enough = session_->options().autotune ? kCandidates : 1;
    std::vector<int64_t> built;
    std::string reason = "none is reproducible";
    for (const int64_t i : ranked()) {
      if (built.size() == enough) break;
      const std::string refused = graph_->build(i);
      refused.empty() ? built.push_back(i) : void(reason = refused);
    }
    if (built.empty()) return reason;
    index_ = built.size() == 1 ? built[0] : fastest(built);
    graph_->keep_only(index_);
    engine_ = graph_->name(index_);
    return "";
  }

  /// The reason, where it cannot be had.
  std::string use(const std::string& engine) {
    try {
      graph_->add(engine_named(engine));
    } catch (const Error& error) {
      return error.what();
    }
    graph_->keep_reproducible(shape_.dtype, session_->options().tf32);
    index_ = 0;
    engine_ = engine;
    if (const std::string refused = graph_->build(index_); !refused.empty()) return refused;
    const std::string found = graph_->name(index_);
    return is(engine_named(found), engine_named(engine)) ? "" : str("it is ", found);
  }

  size_t workspace_bytes() const override { return cast_bytes_ + graph_->workspace_bytes(index_); }

  void launch(void* image, void* weights, void* result, void* workspace) override {
    const bool casts = cast_bytes_ > 0;
    graph_->run(session_->handle(), index_, {image, casts ? workspace : weights, result},
                static_cast<std::byte*>(workspace) + cast_bytes_);
    if (!casts) return;
    cast_.x = workspace;
    cast_.y = weights;
    CT_CUDA(kernels::cast(cast_, session_->options().stream));
  }

  std::string plan() const override { return session_->description() + " " + engine_; }

  Traits traits() const override { return graph_->traits(index_); }

 private:
  using Memory = Handle<void*, cudaFree>;

  /// As heuristics rank them, but those on tensor cores first: of some strided convolutions of 16-bit types the first
  /// has none.
  std::vector<int64_t> ranked() const {
    std::vector<int64_t> plans(static_cast<size_t>(graph_->get_execution_plan_count()));
    std::iota(plans.begin(), plans.end(), 0);
    if (shape_.dtype != DType::f32)
      std::ranges::stable_partition(plans, [&](int64_t i) { return graph_->traits(i).tensor_cores; });
    return plans;
  }

  static Memory allocate(size_t bytes) {
    void* memory = nullptr;
    CT_CUDA(cudaMalloc(&memory, std::max(bytes, size_t{1})));
    return Memory(memory);
  }

  /// The fastest of plans that are built. One whose workspace finds no room is passed over.
  int64_t fastest(const std::vector<int64_t>& built) {
    const auto [image, weights, result] = images(shape_);
    const Memory memory[] = {allocate(bytes_of(image)), allocate(bytes_of(weights)), allocate(bytes_of(result))};
    const std::array<void*, 3> operands = {memory[0], memory[1], memory[2]};
    size_t i = 0;
    for (const Image& operand : {image, weights, result})  // numbers of ordinary size
      CT_CUDA(cudaMemsetAsync(operands[i++], 0x3c, bytes_of(operand), session_->options().stream));
    int64_t best = built[0];
    double least = std::numeric_limits<double>::infinity();
    for (const int64_t index : built) {
      try {
        const Memory workspace = allocate(graph_->workspace_bytes(index));
        const double time = time_of_candidate(session_->options().stream,
                                              [&] { graph_->run(session_->handle(), index, operands, workspace); });
        if (time < least) best = index;
        least = std::min(least, time);
      } catch (const Error& error) {
        if (error.code() != ExitCode::memory) throw;
      }
    }
    return best;
  }

  std::shared_ptr<const Session> session_;
  ConvolutionShape shape_;
  std::unique_ptr<Graph> graph_;
  int64_t index_ = 0;
  std::string engine_;     // its name, as it is stored
  size_t cast_bytes_ = 0;  // of the workspace, before the engine's: dw as the engine writes it
  kernels::CastArgs cast_{};
};

class CudnnConvolutions final : public Convolutions {
 public:
  explicit CudnnConvolutions(const LibraryOptions& options) : session_(std::make_shared<const Session>(options)) {}

  std::unique_ptr<Convolution> prepare(ConvolutionPass pass, const ConvolutionShape& shape,
                                       const std::string& plan) override {
    if (!plan.empty()) return restored(pass, shape, plan);
    auto convolution = std::make_unique<CudnnConvolution>(session_, pass, shape);
    const std::string reason = convolution->choose();
    if (!reason.empty())
      fail(ExitCode::usage, description(), " has no reproducible plan for ", name(pass, shape), " (", reason,
           "): give another version's folder by --cuda-path, or another precision");
    return convolution;
  }

  std::string description() const override { return session_->description(); }

 private:
  std::unique_ptr<Convolution> restored(ConvolutionPass pass, const ConvolutionShape& shape, const std::string& plan) {
    const std::string version = description() + " ";
    auto convolution = std::make_unique<CudnnConvolution>(session_, pass, shape);
    const std::string reason =
        plan.starts_with(version) ? convolution->use(plan.substr(version.size())) : "it is of another version";
    if (!reason.empty())
      fail(ExitCode::usage, "the stored plan ", in_quotes(plan), " is none of ", description(), " for ",
           name(pass, shape), " (", reason, ")");
    return convolution;
  }

  std::shared_ptr<const Session> session_;
};

}  // namespace

std::unique_ptr<Convolutions> make_convolutions(const LibraryOptions& options) {
  return std::make_unique<CudnnConvolutions>(options);
}

}  // namespace ct::cuda
