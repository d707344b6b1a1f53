// Times every case of the op table: op_benchmark --benchmark_filter=conv_relu_pool
#include <benchmark/benchmark.h>

#include "plan/cost.h"
#include "selftest/case_memory.h"
#include "selftest/run_case.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto backend = ct::make_cpu_backend();
  backend->enter_thread();
  for (const ct::OpCase& c : ct::op_cases()) {
    if (!ct::runs_on(*backend, c)) continue;
    benchmark::RegisterBenchmark(c.name.c_str(), [&](benchmark::State& state) {
      ct::CaseInMemory in_memory(*backend, c);
      in_memory.launch();
      for (auto _ : state) in_memory.only_launch();
      std::vector<ct::Value> values;
      for (const ct::OpOperand& operand : c.operands) values.push_back(operand.value);
      const ct::Cost cost = ct::cost_of(ct::Op(c.op), values);
      const double runs = static_cast<double>(state.iterations());
      if (cost.flops > 0) state.counters["flops"] = {cost.flops * runs, benchmark::Counter::kIsRate};
      state.counters["bytes"] = {cost.bytes * runs, benchmark::Counter::kIsRate};
    });
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
