// cifar-train jobscript: what one submits to Slurm, Grid Engine or PBS.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/config_lookup.h"
#include "cli/jobscript/options.h"
#include "cli/programs.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "train/host_lacks.h"
#include "train/setup.h"

namespace ct {

int verb_jobscript(const Words& words) {
  CLI::App app("Prints a script that trains a configuration as a batch job, to standard output.",
               "cifar-train jobscript");
  ConfigWords files;
  JobOptions job;
  int nodes = 1, ranks = 1;
  add_config_options(app, files);
  add_key_option(app, files, "--output", "output", "the run's folder (output)")->type_name("FOLDER");
  add_key_option(app, files, "--device", "device", "auto | cpu | cuda");
  app.add_option("--scheduler", job.scheduler, "slurm | sge | pbs")->required();
  app.add_option("--nodes", nodes, "hosts")->check(CLI::Range(1, 65536))->capture_default_str();
  app.add_option("--ranks-per-node", ranks, "ranks on each host")->check(CLI::Range(1, 65536))->capture_default_str();
  add_job_options(app, job);
  if (!parse(app, words)) return 0;

  std::vector<std::string> warnings;
  const ConfigSources sources = locate_configs(files, &warnings);
  const Config config = load_config(sources, &warnings);
  for (const std::string& line : warnings) warn(line);
  // Here, not hours later in a queue.
  require_connection(config, {.kind = Launch::Kind::open_mpi, .size = nodes * ranks});
  batch_sizes(config, int64_t{nodes} * ranks);
  require_gpus_asked_for(job, config, ranks);
  for (const std::string& line : host_warnings(config, ranks)) warn(line);

  JobRequest request = job_request(job);
  request.nodes = nodes;
  request.ranks_per_node = ranks;
  request.program = own_program().string();
  request.words = {train_words(sources)};
  std::fputs(job_script(request).c_str(), stdout);
  return 0;
}

}  // namespace ct
