// The stand-in for the CUDA runtime: how a program's mistakes are made to show, and what tests can choose.
//
// Streams are lazy: what is put into one lies in its queue until a synchronisation, the wait for an event behind it, a
// few queries in a row, the stream's end or the queue's length forces it; another stream's work runs only as far as
// events demand. So a result read, or a source overwritten, too early is old or poison, and a missing event shows.
// With ON_HOST_STREAMS=eager everything runs at once: what differs between the two was not ordered. A replayed graph
// runs in the order of its recording (eager) or with every branch as late as its edges allow (lazy).
// The null stream is the legacy one: it runs at once, after the streams of its device that are not
// cudaStreamNonBlocking; cudaMemcpy and cudaMemset are its work, and wait for nothing else. cudaFree waits for the
// whole device, cudaFreeHost for nothing. Copies of pageable memory are deferred like all others, for CUDA only says
// that they may be synchronous.
//
// Memory is full of poison (NaN) at first, pinned memory too, with guard pages around it, and guard bytes of poison
// that the free checks (AddressSanitizer: at the access); freed memory is unmapped. Device memory is out of the host's
// reach (SIGSEGV) where protection() is not none. Copies are refused unless device ranges lie within one allocation and
// their kind is what the pointers are. A kernel's launch whose arguments have an address of other host memory is
// refused. Kernels and copies may use any device's memory: that peers cannot is not checked.
//
// Capture: the recorded order, events' forks and joins, and these errors, which all invalidate the capture:
// synchronising or querying a capturing stream or its device (900); in a thread that captures, or anywhere while a
// thread captures in global mode: allocating, freeing, registering, cudaMemcpy, cudaMemset, and synchronising or
// querying anything (900); work of the null stream while a blocking stream captures (906); waiting for an event from
// outside (905) or of another capture (902). cudaMallocAsync and cudaFreeAsync are refused too, though CUDA allows
// them. An error that on_host::run() finds is thrown as on_host::Error by the call that forces the kernel, and names
// it. A device with a sticky error (fail_next) answers every call with it. Not here: flags of graphs, priorities,
// memory pools, managed memory, memory of other processes, time. The error codes are NVIDIA's documented ones, not
// compared with a GPU's.
//
// Environment: ON_HOST_STREAMS (lazy | eager); ON_HOST_PROTECT (keys, the default where the CPU has them | pages, slow
// and blind while any thread's work runs | none); ON_HOST_DEVICES (2), of ON_HOST_CAPABILITY (9.0; one each,
// such as 7.0,9.0, of which the last stands for the rest too) with ON_HOST_MEMORY (2147483648) bytes for each process;
// CUDA_VISIBLE_DEVICES as for CUDA; ON_HOST_DRIVER (13000): older than 13000 is too old, 0 none;
// ON_HOST_KERNELS (run | none: neither kernels nor libraries compute, and memory is not filled, to count the launches
// of large steps); ON_HOST_FAIL (nothing; CALL:ERROR:NTH, such as cudaGraphLaunch:214:5): fail_next() with these;
// ON_HOST_REPORT (nothing): a file to which complaints() are added, and what other stand-ins report; ON_HOST_COPIES
// (nothing): a file to which a line with copies_between() is added at the program's end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace on_host {

struct RuntimeOptions {
  enum class Streams { lazy, eager } streams = Streams::lazy;
  size_t longest_queue = 4096;  // more, and the stream runs
  int queries = 3;              // so many in a row are cudaErrorNotReady, then the work is done
  bool own_memory = false;      // of the host, whose addresses may then be arguments of kernels
};
/// Of the calls that follow; to be changed while no other thread is at work.
RuntimeOptions& runtime_options();

/// As when the program began: reads the environment, forgets all handles, memory, errors and injected failures. No
/// other thread may be at work; this one's device is 0 again.
void restart();

/// As devices do by themselves: runs what lies in any stream that no thread runs. For work of one that waits for
/// another's, while the host is elsewhere.
void let_streams_go_on();

enum class Protection { none, keys, pages };
Protection protection();

/// Device and pinned memory that was not freed, in bytes; streams, events and graphs that were not destroyed.
size_t allocated_bytes();
size_t live_handles();

/// Copies between host and device memory that streams have executed in this process, in replayed graphs too. What
/// kernels read and write of page-locked memory is not among them.
size_t copies_between();

/// The nth call from now of that name (empty: of any; "NAME@capture": of those in a thread that captures) returns the
/// error instead of doing anything. Kernel launches are called "cudaLaunchKernelEx", launch_on_device
/// "launch_on_device", cudaMallocHost "cudaHostAlloc", and what creates streams and events by its name WithFlags. An
/// error that leaves a real device unusable (illegal address, launch failure, uncorrectable ECC, ...) stays: the
/// current device is lost. cudaSuccess: the call is forgotten, as by a program that does not make it.
void fail_next(const std::string& call, cudaError_t error, int nth = 1);

/// What a library's kernels would do: body() runs in the stream's turn, or is recorded, with access to device memory.
/// It may wait for other streams' bodies in other threads; it must not call CUDA.
/// `others`: it waits for work that other threads launch.
enum class Meets { nobody, others };
cudaError_t launch_on_device(cudaStream_t stream, std::function<void()> body, const std::string& name = "",
                             Meets meets = Meets::nobody);

/// Since the last call: what a real driver may do by waiting for devices, with other threads kept out (loading a kernel
/// at its first launch on a device, taking up a graph, allocating and freeing), while work that Meets::others was
/// launched and not done. Where that work's peer is one of those kept out, a real program stops there for ever.
std::vector<std::string> complaints();
void report(const std::string& line);

}  // namespace on_host
