#include "train/device.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/host.h"
#include "base/text.h"
#include "comm/host/staged.h"
#include "comm/nccl/nccl.h"
#include "device/cuda.h"
#include "device/cuda/library.h"
#include "train/agree.h"
#include "train/config/validate.h"

namespace ct {
namespace {

/// The first two ranks with one device; {0, 0}: none.
std::pair<size_t, size_t> sharing(const std::vector<std::string>& devices) {
  for (size_t b = 1; b < devices.size(); ++b)
    for (size_t a = 0; a < b; ++a)
      if (devices[a] == devices[b]) return {a, b};
  return {0, 0};
}

/// The GPUs of a run.
struct Gpus {
  int first = 0, count = 0;
};
/// What "auto" finds: the first GPU that can be used and those right behind it that can be used too. The driver is
/// asked once: its answer stays the same as long as the process lives, and takes a while on a machine of many GPUs.
struct Automatic {
  Gpus gpus;
  std::string left_out;  // see gpu_left_out()
};
const Automatic& automatic() {
  static const Automatic found = [] {
    Automatic a;
    if (!cuda_expected()) return a;
    std::vector<std::string> problems;
    for (int gpu = 0; gpu < cuda_device_count(); ++gpu) problems.push_back(cuda_problem(gpu));
    const auto usable = [](const std::string& problem) { return problem.empty(); };
    const auto first = std::ranges::find_if(problems, usable), end = std::find_if_not(first, problems.end(), usable);
    a.gpus = {static_cast<int>(first - problems.begin()), static_cast<int>(end - first)};
    if (first == problems.end())
      a.left_out = str("device: auto computes on the CPU: ", problems.empty() ? cuda_problem() : problems.front(),
                       ", or say --device cpu");
    else if (first != problems.begin() || end != problems.end())
      a.left_out = str("device: auto does not use the GPU: ", first != problems.begin() ? problems.front() : *end);
    return a;
  }();
  return found;
}

/// The GPUs of a run: with "cuda:N" from number N on, which is judged by itself.
Gpus gpus_of(const Config& config) {
  if (config.device == "auto") return automatic().gpus;
  const size_t colon = config.device.find(':');
  const int first = colon == std::string::npos ? 0 : std::stoi(config.device.substr(colon + 1));
  return {first, cuda_problem(first).empty() ? cuda_device_count() - first : 0};
}

/// Ranks of the same host before this one. Collective.
int local_rank(Communicator& comm) {
  const std::string here = host_name();
  const std::vector<std::string> hosts = comm.gather(here);
  return static_cast<int>(std::count(hosts.begin(), hosts.begin() + comm.rank(), here));
}

/// The communicator of an engine's collectives; null: `host` itself. Collective.
std::unique_ptr<Communicator> make_collectives(const Config& config, Backend& backend, Communicator& host,
                                               Sharing& sharing_here, std::string& note) {
  const CommBackend wanted = config.communication.backend;
  require_fitting_device(config, !backend.is_host());
  if (backend.is_host()) return nullptr;
  const std::vector<std::string> devices = host.gather(backend.identity());
  const auto [a, b] = sharing(devices);
  const bool shared = b > 0;
  sharing_here.ranks_a_device = static_cast<int>(std::count(devices.begin(), devices.end(), backend.identity()));
  if (shared && !config.communication.share_device)
    fail(ExitCode::usage, "ranks ", a, " and ", b, " have the same GPU (", devices[a],
         "); start at most one rank per GPU, or set communication.share_device: true");
  if (shared && wanted == CommBackend::nccl)
    fail(ExitCode::usage, "communication.backend: nccl needs a GPU for every rank, but ranks ", a, " and ", b,
         " share one; use auto");
  const cuda::LibraryPlaces places{config.cuda.path};
  sharing_here.nccl = wanted == CommBackend::nccl;
  if (host.size() > 1 && !shared && wanted == CommBackend::automatic) {
    const std::string problem = nccl_problem(places);
    sharing_here.nccl = !any_rank(host, !problem.empty());
    if (!sharing_here.nccl) note = "sums pass through host memory, slower than by NCCL: " + problem;
  }
  return sharing_here.nccl ? make_nccl(backend, host, {.places = places}) : make_staged(backend, host);
}

}  // namespace

DType compute_type(const Config& config) {
  return config.bf16.enabled == true ? DType::bf16 : config.fp16.enabled ? DType::f16 : DType::f32;
}

void settle_bf16(Config& config) {
  if (config.bf16.enabled) return;
  const bool has_bf16 = wants_cuda(config) || make_cpu_backend()->problem_with(DType::bf16).empty();  // every GPU has
  config.bf16.enabled = has_bf16 && !config.fp16.enabled;
}

void require_arithmetic(const Config& config, const Backend& backend) {
  const std::string problem = backend.problem_with(compute_type(config));
  if (problem.empty()) return;
  if (config.fp16.enabled) fail(ExitCode::usage, kNoFp16OnCpu);
  fail(ExitCode::usage, "bf16.enabled: ", problem, ": --set bf16.enabled=false");
}

void require_arithmetic_of_begun(const Backend& backend) {
  if (const std::string problem = backend.problem_with(DType::bf16); !problem.empty())
    fail(ExitCode::usage, "the run began in bf16, which bf16.enabled: auto chose on its first machine, but ", problem,
         ": continue it on a machine that computes in bf16, or start over with --reset or another --output");
}

bool wants_cuda(const Config& config) {
  return config.device.starts_with("cuda") || (config.device == "auto" && gpus_of(config).count > 0);
}

int gpu_count(const Config& config) { return gpus_of(config).count; }
int first_gpu(const Config& config) { return gpus_of(config).first; }

void require_gpu_each(const Config& config, int64_t ranks, int64_t gpus) {
  if (ranks > gpus && !config.communication.share_device)
    fail(ExitCode::usage, ranks, " ranks on ", counted(gpus, "GPU"),
         ": start at most one rank per GPU, or set communication.share_device: true");
}

void require_fitting_device(const Config& config, bool on_gpu) {
  if (!on_gpu && config.communication.backend == CommBackend::nccl) fail(ExitCode::usage, kNoNcclOnCpu);
  if (on_gpu && config.zero_optimization.offload_param_device == OffloadDevice::cpu)
    fail(ExitCode::usage, kNoParamOffload);
}

Sharing foretell_sharing(const Config& config, int ranks) {
  if (!wants_cuda(config)) return {};
  const int gpus = gpu_count(config);
  Sharing sharing{.ranks_a_device = gpus == 0 ? 1 : (ranks + gpus - 1) / gpus};
  const CommBackend wanted = config.communication.backend;
  sharing.nccl =
      wanted == CommBackend::nccl || (wanted == CommBackend::automatic && ranks > 1 && sharing.ranks_a_device == 1 &&
                                      (gpus == 0 || nccl_problem({config.cuda.path}).empty()));
  return sharing;
}

std::string gpu_left_out(const Config& config) { return config.device == "auto" ? automatic().left_out : ""; }

std::unique_ptr<Backend> make_backend(const Config& config, int local_rank, const std::string& memory_advice) {
  cuda::require_libraries_in(config.cuda.path);  // a mistake even where nothing is looked for in it
  std::unique_ptr<Backend> backend;
  if (wants_cuda(config)) {
    const Gpus gpus = gpus_of(config);
    backend = make_cuda_backend({.device = gpus.first + local_rank % std::max(gpus.count, 1),
                                 .autotune = config.cuda.autotune,
                                 .tf32 = config.cuda.tf32,
                                 .library_path = config.cuda.path,
                                 .memory_advice = memory_advice});
  } else {
    backend = make_cpu_backend(
        {.winograd = config.cpu.winograd, .autotune = config.cpu.autotune, .memory_advice = memory_advice});
  }
  require_arithmetic(config, *backend);
  return backend;
}

RankDevice::RankDevice(const Config& config, Communicator& host, const std::string& memory_advice)
    : host_(host), note_(gpu_left_out(config)) {
  const int number = local_rank(host);
  run_on_all_ranks(host, [&] { backend_ = make_backend(config, number, memory_advice); });
  backend_->enter_thread();
  collectives_ = make_collectives(config, *backend_, host, sharing_, note_);
}

void RankDevice::finish() {
  if (collectives_) collectives_->finish();
}

}  // namespace ct
