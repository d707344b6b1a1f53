#include "deepspeed/env_file.h"

#include "as_file.h"

namespace ct::fuzz::env_file {
namespace {

void read(Input input) { read_env_file(as_file("job.env", input)); }

const Registered registered({.name = "env_file", .refusals = {ExitCode::usage}, .read = read});

}  // namespace
}  // namespace ct::fuzz::env_file
