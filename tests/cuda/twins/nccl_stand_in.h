// A stand-in for NCCL: ranks are threads of this process, each with its device of the CUDA runtime's stand-in
// (tests/kernels/on_host/runtime.h), in whose streams the operations wait for their turn. Linked in place of
// src/comm/nccl/nccl_api.cpp, it is what open_nccl() finds.
//
// What NCCL leaves undefined or punishes with silence is an error here: on_host::Error, thrown by the call that waits
// for the stream, on every rank that takes part:
// - sends and receives that differ in their bytes, collectives that differ in kind, count, type or place;
// - ranks whose operations come in different orders, or do not come: a wait that is longer than `patience`.
// By result codes, as NCCL: two ranks on one GPU, calls of no communicator, unbalanced groups, wrong arguments.
// Aborting a communicator ends what of it runs or comes later, leaving any results; finalizing it waits for all ranks
// to do so, and destroying it wants that first. Both ends wait for graphs with its operations to be destroyed (of NCCL
// 2.26 and later): longer than `patience`, and it is a complaint. Sums are added
// from the last rank to the first, unlike the canonical tree. Not here: several communicators in one group, operations
// of one rank in two streams at a time, ncclInProgress. For tests of what looks for faults, ON_HOST_NCCL_FAULT plants
// one: receive, all_reduce, reduce_scatter or all_gather delivers a wrong bit, or with `replay` no replay does
// anything.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/nccl/nccl_api.h"

namespace on_host {

struct NcclStandInOptions {
  int version = 22809;
  std::chrono::milliseconds patience{120000};
};
/// To be changed while no other thread is at work.
NcclStandInOptions& nccl_options();

/// The next call of that name, on any thread, returns this instead of doing anything.
void fail_next_nccl(const std::string& call, ncclResult_t result);
/// ncclCommGetAsyncError tells it from now on, for that rank of every communicator.
void set_async_nccl_error(int rank, ncclResult_t result);

/// That were neither destroyed nor aborted.
size_t live_nccl_communicators();
/// How communicators have ended, of all ranks, since the last call. ON_HOST_REPORT has a line for each.
struct NcclEnds {
  size_t destroyed = 0, aborted = 0;
};
NcclEnds nccl_ends();
/// Operations that ran to their good end, of all ranks: groups, whose parts count as one.
size_t finished_nccl_operations();
/// Since the last call.
std::vector<std::string> nccl_complaints();

}  // namespace on_host
