// cifar-train selftest: does this device compute, and do its collectives move, what the references say?
#include "selftest/selftest.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "metrics/metrics_log.h"
#include "selftest/collectives.h"
#include "train/device.h"

namespace ct {
namespace {

std::vector<std::string> names_of(const std::vector<DType>& types) {
  std::vector<std::string> names;
  for (const DType type : types) names.emplace_back(name_of(type));
  return names;
}

void print(const OpReport& report, const std::string& name) {
  const std::string types = joined(names_of(report.types), " ");
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

/// One rank, which sends to itself: what a machine with one GPU can show.
int selftest_collectives(Config config, bool json) {
  if (!wants_cuda(config))
    fail(ExitCode::usage, "selftest --collectives tests NCCL, which connects GPUs: use --device cuda");
  config.communication.backend = CommBackend::nccl;
  return run_job(1, [&](Communicator& comm) {
    RankDevice device(config, comm, /*memory_advice=*/"");
    Communicator& collectives = device.collectives();
    const std::vector<CollectiveResult> results = run_collectives(device.backend(), collectives);
    collectives.finish();
    const std::string where = collectives.description() + "; " + device.backend().description();
    Json cases = Json::object();
    if (!json) std::printf("%s\n", where.c_str());
    for (const auto& [name, problem] : results) {
      cases[name] = problem.empty() ? "ok" : problem;
      if (!json) std::printf("%-6s  %s\n", problem.empty() ? "ok" : "FAILED", name.c_str());
    }
    const auto is_bad = [](const CollectiveResult& result) { return !result.problem.empty(); };
    const auto failed = std::count_if(results.begin(), results.end(), is_bad);
    if (json)
      std::printf("%s\n", Json{{"device", where}, {"cases", results.size()}, {"failed", failed}, {"collectives", cases}}
                              .dump(1, ' ', false, Json::error_handler_t::replace)
                              .c_str());
    else
      std::printf("total   %zu collectives, each launched, then recorded and replayed three times\n", results.size());
    if (failed == 0) return 0;
    std::fflush(stdout);
    const CollectiveResult& first = *std::find_if(results.begin(), results.end(), is_bad);
    fail(ExitCode::bug, "selftest: ", failed, " of ", results.size(), " collectives have wrong results on ", where,
         ", the first: ", first.name, ": ", first.problem);
  });
}

}  // namespace

int verb_selftest(const Words& words) {
  CLI::App app(
      "Tests every operation in every type on this device, or every collective, against its reference. Exit code 0 if "
      "all "
      "agree, 1 if not.",
      "cifar-train selftest");
  Config config;
  bool collectives = false, json = false, verbose = false;
  app.add_option("--device", config.device, "auto | cpu | cuda | cuda:N")->check(device_problem);
  app.add_option("--cuda-path", config.cuda.path, "the folder that is searched first for cuDNN, cuBLAS and NCCL")
      ->type_name("FOLDER");
  app.add_flag("--collectives", collectives,
               "test NCCL's collectives on one rank, launched and replayed, instead of the operations");
  app.add_flag("--json", json, "one JSON object instead of text");
  app.add_flag("-v,--verbose", verbose, "a line for every case");
  if (!parse(app, words)) return 0;

  if (collectives) return selftest_collectives(config, json);
  warn(gpu_left_out(config));
  const auto backend = make_backend(config, /*local_rank=*/0, /*memory_advice=*/"");
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
    print_line("errors as shares of the rounding bound" +
               (report.skipped > 0
                    ? str("; ", report.skipped, " cases in f16 skipped: ", backend->problem_with(DType::f16))
                    : ""));
  }
  if (total.failed == 0) return 0;
  fail(ExitCode::bug, "selftest: ", total.failed, " of ", total.cases, " cases do not agree with their references on ",
       device, ", the first: ", report.failure);
}

}  // namespace ct
