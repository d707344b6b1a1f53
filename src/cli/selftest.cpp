// cifar-train selftest: does this device compute what the references say?
#include "selftest/selftest.h"

#include <cstdio>

#include "base/error.h"
#include "cli/verbs.h"
#include "metrics/metrics_log.h"
#include "train/device.h"

namespace ct {
namespace {

std::vector<std::string> names_of(const std::vector<DType>& types) {
  std::vector<std::string> names;
  for (const DType type : types) names.emplace_back(name_of(type));
  return names;
}

void print(const OpReport& report, const std::string& name) {
  std::string types;
  for (const std::string& type : names_of(report.types)) types += (types.empty() ? "" : " ") + type;
  std::printf("%-24s %6d  %-12s  %12.0f %%", name.c_str(), report.cases, types.c_str(), 100 * report.worst);
  if (report.failed > 0) std::printf("  %d FAILED", report.failed);
  std::printf("\n");
}

Json to_json(const OpReport& report) {
  return {{"cases", report.cases},
          {"failed", report.failed},
          {"types", names_of(report.types)},
          {"largest_error", report.worst}};
}

}  // namespace

int verb_selftest(const Words& words) {
  CLI::App app(
      "Every operation in every type on this device, against its reference. Exit code 0 if all agree, 1 if not.",
      "cifar-train selftest");
  Config config;
  bool json = false, verbose = false;
  app.add_option("--device", config.device, "auto | cpu | cuda | cuda:N")->check(device_problem);
  app.add_option("--cuda-path", config.cuda.path, "where cuDNN and cuBLAS are looked for first");
  app.add_flag("--json", json, "one JSON object instead of text");
  app.add_flag("-v,--verbose", verbose, "a line for every case");
  if (!parse(app, words)) return 0;

  warn(gpu_left_out(config));
  const auto backend = make_backend(config, /*local_rank=*/0, /*less_memory=*/"");
  backend->enter_thread();
  const SelftestReport report = run_selftest(*backend, op_cases(), [&](const OpCase& c, const CaseResult& result) {
    if (!verbose || json) return;
    std::printf("%-6s  %5.0f %%  %s\n", result.problem.empty() ? "ok" : "FAILED", 100 * result.worst, c.name.c_str());
    if (!result.problem.empty()) std::printf("        %s\n", result.problem.c_str());
  });
  const OpReport total = report.total();
  // After the work, when it is known which libraries took part.
  const std::string device = backend->description();

  if (json) {
    Json object = {{"device", device}, {"skipped", report.skipped}};
    object.update(to_json(total));
    for (const OpReport& op : report.ops) object["ops"][op.op] = to_json(op);
    if (total.failed > 0) object["first_failure"] = report.failure;
    std::printf("%s\n", object.dump(1, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s%s\n%-24s %6s  %-12s  %14s\n", verbose ? "\n" : "", device.c_str(), "operation", "cases", "types",
                "largest error");
    for (const OpReport& op : report.ops) print(op, op.op);
    print(total, "total");
    std::printf("errors as shares of what rounding may do");
    if (report.skipped > 0)
      std::printf("; %d cases in f16 skipped: %s", report.skipped, backend->problem_with(DType::f16).c_str());
    std::printf("\n");
  }
  if (total.failed == 0) return 0;
  std::fflush(stdout);
  fail(ExitCode::bug, "selftest: ", total.failed, " of ", total.cases, " cases do not agree with their references on ",
       device, ", the first: ", report.failure);
}

}  // namespace ct
