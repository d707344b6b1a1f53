// kernel_benchmark [--json FILE] [--shrink N]: what each kernel reaches on this GPU.
//
// At large sizes its bytes, by its header's formula, over its time, against the copy kernel (1 GiB read, 1 GiB
// written); with the share that is the target, where there is one. At the tutorial's sizes its time alone. Launches are
// replayed from a CUDA graph, so that their cost does not count: medians of windows of some milliseconds. --shrink
// divides the large sizes, for a try. Exit code 77: no GPU.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench.h"

namespace ct::kernels {
namespace {

const char* verdict(const Row& row, double copy) {
  if (row.target == 0) return "";
  return row.gb_per_s() >= row.target * copy ? "met" : "MISSED";
}

void print(const std::vector<Row>& rows, double copy) {
  std::printf("%-28s %-9s %-30s %10s %12s %8s %7s %7s\n", "kernel", "type", "shape", "us", "bytes", "GB/s", "share",
              "target");
  for (const Row& r : rows) {
    std::printf("%-28s %-9s %-30s %10.2f", r.kernel.c_str(), r.type.c_str(), r.shape.c_str(), r.us);
    if (r.bytes > 0)
      std::printf(" %12lld %8.0f %6.1f%%", static_cast<long long>(r.bytes), r.gb_per_s(), 100 * r.gb_per_s() / copy);
    if (r.target > 0) std::printf(" %6.0f%% %s", 100 * r.target, verdict(r, copy));
    std::printf("\n");
  }
}

void write_json(const char* file, const cudaDeviceProp& device, const std::vector<Row>& rows, double copy) {
  std::FILE* const out = std::fopen(file, "w");
  if (!out) throw std::runtime_error(std::string("cannot write ") + file);
  std::fprintf(out, "{\"device\": \"%s\", \"copy_gb_per_s\": %.1f, \"kernels\": [", device.name, copy);
  for (const Row& r : rows) {
    std::fprintf(out, "%s\n  {\"kernel\": \"%s\", \"type\": \"%s\", \"shape\": \"%s\", \"us\": %.3f",
                 &r == rows.data() ? "" : ",", r.kernel.c_str(), r.type.c_str(), r.shape.c_str(), r.us);
    if (r.bytes > 0)
      std::fprintf(out, ", \"bytes\": %lld, \"gb_per_s\": %.1f, \"share\": %.4f", static_cast<long long>(r.bytes),
                   r.gb_per_s(), r.gb_per_s() / copy);
    if (r.target > 0) std::fprintf(out, ", \"target\": %.2f, \"verdict\": \"%s\"", r.target, verdict(r, copy));
    std::fprintf(out, "}");
  }
  std::fprintf(out, "]}\n");
  if (std::fclose(out) != 0) throw std::runtime_error(std::string("cannot write ") + file);
}

int run(int argc, char** argv) {
  const char* json = nullptr;
  int64_t shrink = 1;
  for (int i = 1; i < argc; i += 2)
    if (i + 1 < argc && std::strcmp(argv[i], "--json") == 0)
      json = argv[i + 1];
    else if (i + 1 < argc && std::strcmp(argv[i], "--shrink") == 0 && std::atoll(argv[i + 1]) > 0)
      shrink = std::atoll(argv[i + 1]);
    else
      throw std::runtime_error("usage: kernel_benchmark [--json FILE] [--shrink N]");
  cudaDeviceProp device = {};
  if (const cudaError_t error = cudaGetDeviceProperties(&device, 0); error != cudaSuccess) {
    std::printf("there is no GPU: %s\n", cudaGetErrorString(error));
    return 77;
  }
  std::printf("%s, sm_%d%d\n", device.name, device.major, device.minor);
  constexpr int64_t kMemory = int64_t{5} << 30, kLeast = int64_t{8} << 20;  // the least: the tutorial's sizes
  Bench bench(std::max(kMemory / shrink, kLeast), shrink);
  bench.run();
  const double copy = bench.copy_gb_per_s();
  print(bench.rows(), copy);
  int targets = 0, met = 0;
  for (const Row& row : bench.rows()) {
    targets += row.target > 0;
    met += row.target > 0 && row.gb_per_s() >= row.target * copy;
  }
  std::printf("copy: %.0f GB/s; %d of %d targets met\n", copy, met, targets);
  if (json) write_json(json, device, bench.rows(), copy);
  return 0;
}

}  // namespace
}  // namespace ct::kernels

int main(int argc, char** argv) {
  try {
    return ct::kernels::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: kernel_benchmark: %s\n", error.what());
    return 1;
  }
}
