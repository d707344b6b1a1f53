// flops_profiler: the cost of the operations of one step, by module of the network and by kind.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/cost.h"
#include "plan/program.h"
#include "train/config/config.h"
#include "train/reports/op_modules.h"

namespace ct {

/// The table's data about the run.
struct ProfiledRun {
  std::string model;
  int64_t step = 0;  // the profiled step, counted from 1
  int64_t images = 0, images_of_rank = 0;
  double seconds = 0;  // of the whole step, including waiting for data
};

/// One rank's operations of one step, all micro-steps together.
class FlopsProfile {
 public:
  /// took() is called for steps of `program`; both arguments must outlive this.
  FlopsProfile(const Graph& graph, const LoweredProgram& program);

  /// Records a completed step of micro, last or update.
  void took(const Step& step, double seconds);

  /// Lines: a summary; the keys' top modules of each depth by parameters, multiply-adds and time; in detail every
  /// module of the keys' depth, and every kind of operation.
  std::vector<std::string> text(const Config::FlopsProfiler& keys, const ProfiledRun& run) const;

 private:
  /// The forward pass ends with the loss; recomputed operations belong to the backward pass.
  enum class Pass : uint8_t { forward, backward, update, exchange };
  struct Kind {
    std::string module;
    Pass pass;
    std::string op;
    auto operator<=>(const Kind&) const = default;
  };
  struct Spent {
    int64_t launches = 0;
    double flops = 0, bytes = 0, seconds = 0;
    Spent& operator+=(const Spent& more);
  };
  struct Modules {
    Spent forward, backward;
  };
  std::map<std::string, Modules> by_module() const;
  Spent of_pass(Pass pass) const;
  void add_summary(std::vector<std::string>& lines, const ProfiledRun& run) const;
  void add_top(std::vector<std::string>& lines, const Config::FlopsProfiler& keys, int depth) const;
  void add_modules(std::vector<std::string>& lines, const ProfiledRun& run, int depth) const;
  void add_kinds(std::vector<std::string>& lines) const;
  double share(double seconds) const;

  const LoweredProgram& program_;
  OpModules modules_;
  std::map<const Step*, Kind> kind_of_;
  std::map<Kind, Spent> spent_;
};

/// "62.01 K", "1.2 G": decimal.
std::string count_text(double n);

}  // namespace ct
