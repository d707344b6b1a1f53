#include "train/reports/flops_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"

namespace ct {
namespace {

bool is_part_of_the_model(const std::string& module) { return !module.starts_with("("); }

}  // namespace

std::string count_text(double n) {
  constexpr const char* kUnits[] = {"", " K", " M", " G", " T", " P"};
  size_t unit = 0;
  for (; n >= 999.995 && unit + 1 < std::size(kUnits); ++unit) n /= 1000;
  return fmt::format("{:.{}f}{}", n, unit > 0 ? 2 : 0, kUnits[unit]);
}

FlopsProfile::Spent& FlopsProfile::Spent::operator+=(const Spent& more) {
  launches += more.launches;
  flops += more.flops;
  bytes += more.bytes;
  seconds += more.seconds;
  return *this;
}

FlopsProfile::FlopsProfile(const Graph& graph, const LoweredProgram& program)
    : program_(program), modules_(graph, program) {
  for (const Program* steps : {&program.micro, &program.last, &program.update}) {
    Pass pass = steps == &program.update ? Pass::update : Pass::forward;
    for (const Step& step : *steps) {
      const auto* op = std::get_if<ComputeOp>(&step.op);
      const bool of_update = op && std::visit([](const auto& o) { return o.kFacts.role == Role::update; }, *op);
      const Pass its = op == nullptr ? Pass::exchange : of_update ? Pass::update : pass;
      kind_of_[&step] = {modules_.of(step.op), its, std::string(name_of(step.op))};
      if (op && std::holds_alternative<SoftmaxCrossEntropy>(*op)) pass = Pass::backward;
    }
  }
}

void FlopsProfile::took(const Step& step, double seconds) {
  const auto kind = kind_of_.find(&step);
  check(kind != kind_of_.end(), "a step of another program was profiled");
  const Cost cost = cost_of(step.op, program_.values);
  spent_[kind->second] += {1, cost.flops, cost.bytes, seconds};
}

/// What was spent in each module of the model and in all that lie in it, and in what is none.
std::map<std::string, FlopsProfile::Modules> FlopsProfile::by_module() const {
  std::map<std::string, Modules> all;
  for (const auto& [name, count] : modules_.parameters()) all[name];
  const auto add = [&](const std::string& module, Pass pass, const Spent& spent) {
    (pass == Pass::forward ? all[module].forward : all[module].backward) += spent;
  };
  for (const auto& [kind, spent] : spent_) {
    if (!is_part_of_the_model(kind.module)) continue;
    for (std::string at = kind.module; !at.empty(); at = parent_of(at)) add(at, kind.pass, spent);
    add("", kind.pass, spent);
  }
  return all;
}

FlopsProfile::Spent FlopsProfile::of_pass(Pass pass) const {
  Spent sum;
  for (const auto& [kind, spent] : spent_)
    if (kind.pass == pass) sum += spent;
  return sum;
}

/// Of all operations.
double FlopsProfile::share(double seconds) const {
  Spent all;
  for (const auto& [kind, spent] : spent_) all += spent;
  return all.seconds > 0 ? 100 * seconds / all.seconds : 0;
}

std::vector<std::string> FlopsProfile::text(const Config::FlopsProfiler& keys, const ProfiledRun& run) const {
  int depth = 0;
  for (const auto& [name, count] : modules_.parameters()) depth = std::max(depth, depth_of(name));
  if (keys.module_depth >= 0) depth = static_cast<int>(std::min<int64_t>(depth, keys.module_depth));
  std::vector<std::string> lines;
  add_summary(lines, run);
  add_top(lines, keys, depth);
  if (keys.detailed) {
    add_modules(lines, run, depth);
    add_kinds(lines);
  }
  lines.push_back(std::string(80, '-'));
  return lines;
}

void FlopsProfile::add_summary(std::vector<std::string>& lines, const ProfiledRun& run) const {
  const Distribution& d = program_.distribution;
  const Spent forward = of_pass(Pass::forward), backward = of_pass(Pass::backward), update = of_pass(Pass::update),
              exchange = of_pass(Pass::exchange);
  const auto line = [&](const char* what, const std::string& value) {
    lines.push_back(fmt::format("{:<58}  {}", what, value));
  };
  const auto ms = [](double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); };
  const auto rate = [](const Spent& spent) {
    return spent.seconds > 0 ? count_text(spent.flops / spent.seconds) + "FLOPS" : std::string("-");
  };
  lines.push_back("-------------------------- Flops Profiler --------------------------");
  lines.push_back(str("Profile of step ", run.step, ", in which operations ran one after the other"));
  line("ranks:", std::to_string(d.ranks));
  line("images of the step; of them on this rank:", str(run.images, "; ", run.images_of_rank));
  line("micro-steps of this rank:", std::to_string(d.accumulation));
  line("parameters of the model:", count_text(static_cast<double>(modules_.parameters().at(""))));
  line("multiply-adds of the forward pass of this rank:", count_text(forward.flops / 2) + "MACs");
  line("floating-point operations of the forward pass:", count_text(forward.flops));
  line("floating-point operations of the backward pass:", count_text(backward.flops));
  line("floating-point operations of the update:", count_text(update.flops));
  line("time of the forward pass; its speed:", ms(forward.seconds) + "; " + rate(forward));
  line("time of the backward pass; its speed:", ms(backward.seconds) + "; " + rate(backward));
  line("time of exchanges between ranks:", ms(exchange.seconds));
  line("time of the update:", ms(update.seconds));
  line("time of the whole step, with waiting for data:", ms(run.seconds));
  line("images a second, while profiled:", fmt::format("{:.0f}", static_cast<double>(run.images) / run.seconds));
}

void FlopsProfile::add_top(std::vector<std::string>& lines, const Config::FlopsProfiler& keys, int depth) const {
  using Entry = std::pair<std::string, Modules>;
  const auto all = by_module();
  const auto parameters = [&](const Entry& e) { return static_cast<double>(modules_.parameters().at(e.first)); };
  const auto macs = [](const Entry& e) { return e.second.forward.flops / 2; };
  const auto time = [](const Entry& e) { return e.second.forward.seconds + e.second.backward.seconds; };
  lines.push_back("");
  lines.push_back(str("Aggregated profile: of each depth the first ", keys.top_modules, " by"));
  for (int at = 0; at <= depth; ++at) {
    std::vector<Entry> modules;
    for (const std::string& name : modules_.names())
      if (depth_of(name) == at) modules.emplace_back(name, all.at(name));
    const auto row = [&](const char* title, const std::function<double(const Entry&)>& of,
                         const std::function<std::string(double)>& as_text) {
      std::ranges::stable_sort(modules, std::greater<>(), of);
      std::string line = fmt::format("    {:<14}", title);
      for (size_t i = 0; i < modules.size() && i < static_cast<size_t>(keys.top_modules); ++i)
        line += str(i > 0 ? ", " : "", modules[i].first.empty() ? "the model" : modules[i].first, " ",
                    as_text(of(modules[i])));
      lines.push_back(line);
    };
    lines.push_back(str("depth ", at, ":"));
    row("parameters", parameters, count_text);
    row("MACs", macs, count_text);
    row("time", time, [](double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); });
  }
}

void FlopsProfile::add_modules(std::vector<std::string>& lines, const ProfiledRun& run, int depth) const {
  lines.push_back("");
  lines.push_back("Detailed profile: modules with their submodules; shares are of the time of all operations");
  lines.push_back(fmt::format("{:<36} {:>12} {:>12} {:>12} {:>12} {:>12} {:>7}", "module", "parameters", "MACs",
                              "FLOPs", "forward ms", "backward ms", "share"));
  const auto row = [&](const std::string& name, const std::string& parameters, const Modules& m) {
    lines.push_back(fmt::format("{:<36} {:>12} {:>12} {:>12} {:12.3f} {:12.3f} {:6.1f}%", name, parameters,
                                count_text(m.forward.flops / 2), count_text(m.forward.flops + m.backward.flops),
                                1e3 * m.forward.seconds, 1e3 * m.backward.seconds,
                                share(m.forward.seconds + m.backward.seconds)));
  };
  const auto all = by_module();
  for (const std::string& name : modules_.names()) {
    const int at = depth_of(name);
    if (at > depth) continue;
    row(name.empty() ? run.model : std::string(static_cast<size_t>(2 * at), ' ') + name,
        count_text(static_cast<double>(modules_.parameters().at(name))), all.at(name));
  }
  std::map<std::string, Modules> others;
  for (const auto& [kind, spent] : spent_)
    if (!is_part_of_the_model(kind.module))
      (kind.pass == Pass::backward ? others[kind.module].backward : others[kind.module].forward) += spent;
  for (const auto& [name, spent] : others) row(name, "", spent);
}

void FlopsProfile::add_kinds(std::vector<std::string>& lines) const {
  std::map<std::string, Spent> kinds;
  for (const auto& [kind, spent] : spent_) kinds[kind.op] += spent;
  std::vector<std::pair<std::string, Spent>> sorted(kinds.begin(), kinds.end());
  std::ranges::stable_sort(sorted, std::greater<>(), [](const auto& k) { return k.second.seconds; });
  lines.push_back("");
  lines.push_back("Operations by kind");
  lines.push_back(fmt::format("{:<26} {:>9} {:>12} {:>12} {:>10} {:>10} {:>7}", "operation", "launches", "FLOPs", "ms",
                              "GFLOP/s", "GB/s", "share"));
  for (const auto& [op, spent] : sorted) {
    const double seconds = std::max(spent.seconds, 1e-9);
    lines.push_back(fmt::format("{:<26} {:9} {:>12} {:12.3f} {:10.1f} {:10.1f} {:6.1f}%", op, spent.launches,
                                count_text(spent.flops), 1e3 * spent.seconds, spent.flops / seconds / 1e9,
                                spent.bytes / seconds / 1e9, share(spent.seconds)));
  }
}

}  // namespace ct
