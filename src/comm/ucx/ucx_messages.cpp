#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/host.h"
#include "comm/all_ranks.h"
#include "comm/ucx/ucx.h"
#include "comm/ucx/ucx_api.h"

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Each run is a message of its own: those of one sender and plane arrive in their order.
class UcxShape : public MessageShape {
 public:
  explicit UcxShape(std::span<const ByteRun> runs) {
    std::ranges::copy_if(runs, std::back_inserter(runs_), [](const ByteRun& run) { return run.bytes > 0; });
  }
  const std::vector<ByteRun>& runs() const { return runs_; }

 private:
  std::vector<ByteRun> runs_;
};

/// This process's end. Nothing of it is given back but by close(): after a failure the process is about to end, and
/// messages may be under way.
class Worker {
 public:
  explicit Worker(int size) : api_(open_ucx()), ends_(static_cast<size_t>(size)) {
    ucp_config_t* config = nullptr;
    check(api_.config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
    params.features = UCP_FEATURE_TAG;
    params.estimated_num_eps = static_cast<size_t>(size);
    const ucs_status_t status = api_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
    api_.config_release(config);
    check(status, "ucp_init");
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    check(api_.worker_create(context_, &worker, &worker_), "ucp_worker_create");
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::string address() {
    ucp_address_t* address = nullptr;
    size_t length = 0;
    check(api_.worker_get_address(worker_, &address, &length), "ucp_worker_get_address");
    std::string text(reinterpret_cast<const char*>(address), length);
    api_.worker_release_address(worker_, address);
    return text;
  }

  void connect(int rank, const std::string& address) {
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    // Requests tell of their own failure; a peer that has gone after its last message is none.
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    check(api_.ep_create(worker_, &params, &ends_[static_cast<size_t>(rank)]), "ucp_ep_create");
  }

  /// A request to be asked for, or null: done already.
  void* send(const void* buffer, int64_t bytes, int to, ucp_tag_t tag) {
    const ucp_request_param_t plain{};
    return begun(api_.tag_send_nbx(ends_[static_cast<size_t>(to)], buffer, static_cast<size_t>(bytes), tag, &plain),
                 to);
  }
  void* receive(void* buffer, int64_t bytes, int from, ucp_tag_t tag) {
    const ucp_request_param_t plain{};
    constexpr ucp_tag_t kAll = ~ucp_tag_t{0};
    return begun(api_.tag_recv_nbx(worker_, buffer, static_cast<size_t>(bytes), tag, kAll, &plain), from);
  }
  bool done(void* request, int rank) {
    const ucs_status_t status = api_.request_check_status(request);
    if (status == UCS_INPROGRESS) return false;
    api_.request_free(request);
    if (status != UCS_OK) lost(rank, status);
    return true;
  }
  void progress() {
    constexpr int kMost = 100;  // so that who waits may look around
    for (int i = 0; i < kMost && api_.worker_progress(worker_) != 0; ++i) {
    }
  }

  /// Hands over what is still on its way, then lets go of the peers; those that are slow are not waited for long.
  void close() {
    std::vector<void*> requests;
    for (const ucp_ep_h end : ends_) {
      const ucp_request_param_t flush{};
      void* request = end != nullptr ? api_.ep_close_nbx(end, &flush) : nullptr;
      if (UCS_PTR_IS_PTR(request)) requests.push_back(request);
    }
    for (const auto patience = Clock::now() + 5s; !requests.empty() && Clock::now() < patience;) {
      progress();
      std::erase_if(requests, [&](void* request) {
        const bool over = api_.request_check_status(request) != UCS_INPROGRESS;
        if (over) api_.request_free(request);
        return over;
      });
    }
  }

 private:
  void check(ucs_status_t status, const char* call) const {
    if (status != UCS_OK)
      fail(ExitCode::peer, call, ": ", api_.status_string(status), " on host ", host_name(),
           ": see UCX's documentation of UCX_TLS and UCX_NET_DEVICES, or start the ranks with mpirun");
  }
  void* begun(void* request, int rank) {
    if (UCS_PTR_IS_ERR(request)) lost(rank, UCS_PTR_RAW_STATUS(request));
    return request;
  }
  [[noreturn]] void lost(int rank, ucs_status_t status) const {
    fail(ExitCode::peer, "a message to or from rank ", rank, " failed (", api_.status_string(status),
         "): it was lost, or the network is down; start the same command again");
  }

  UcxApi api_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<ucp_ep_h> ends_;  // by rank
};

/// What the two planes share: the worker, and the lock, for one thread at a time may call UCX.
struct UcxWorld {
  UcxWorld(int r, int n) : rank(r), size(n), worker(n) {}
  int rank, size;
  std::mutex calls;
  Worker worker;
};

class UcxBatch : public MessageBatch {
 public:
  UcxBatch(UcxWorld& world, MessageWire::Plane plane) : world_(world), plane_(plane) {}
  void send(const void* buffer, const MessageShape& shape, int to) override {
    for (const ByteRun& run : runs_of(shape)) send_bytes(static_cast<const std::byte*>(buffer) + run.at, run.bytes, to);
  }
  void receive(void* buffer, const MessageShape& shape, int from) override {
    for (const ByteRun& run : runs_of(shape)) receive_bytes(static_cast<std::byte*>(buffer) + run.at, run.bytes, from);
  }
  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const auto place = [&](int rank) { return all.data() + static_cast<size_t>(rank) * mine.size(); };
    if (mine.empty()) return;
    if (place(world_.rank) != mine.data()) std::memcpy(place(world_.rank), mine.data(), mine.size());
    for (int i = 1; i < world_.size; ++i) send_bytes(mine.data(), std::ssize(mine), (world_.rank + i) % world_.size);
    for (int i = 1; i < world_.size; ++i) {
      const int from = (world_.rank + world_.size - i) % world_.size;
      receive_bytes(place(from), std::ssize(mine), from);
    }
  }
  void broadcast(std::span<std::byte> data, int root) override {
    if (data.empty()) return;
    if (world_.rank != root) return receive_bytes(data.data(), std::ssize(data), root);
    for (int i = 1; i < world_.size; ++i) send_bytes(data.data(), std::ssize(data), (root + i) % world_.size);
  }
  void barrier() override {
    signs_.resize(static_cast<size_t>(world_.size));
    gather_all(std::span(signs_).subspan(static_cast<size_t>(world_.rank), 1), signs_);
  }
  void add(std::span<float>) override { check(false, "UCX adds nothing"); }

  bool done() override {
    const std::lock_guard lock(world_.calls);
    world_.worker.progress();
    std::erase_if(requests_, [&](const Request& request) { return world_.worker.done(request.handle, request.rank); });
    return requests_.empty();
  }

 private:
  struct Request {
    void* handle;
    int rank;  // the other end
  };
  static const std::vector<ByteRun>& runs_of(const MessageShape& shape) {
    return static_cast<const UcxShape&>(shape).runs();
  }
  /// Of the sender, so that the receiver can tell: one tag a plane and sender.
  ucp_tag_t tag_of(int sender) const {
    return ucp_tag_t{static_cast<uint8_t>(plane_)} << 32 | static_cast<uint32_t>(sender);
  }
  void send_bytes(const std::byte* from, int64_t bytes, int to) {
    const std::lock_guard lock(world_.calls);
    keep(world_.worker.send(from, bytes, to, tag_of(world_.rank)), to);
  }
  void receive_bytes(std::byte* to, int64_t bytes, int from) {
    const std::lock_guard lock(world_.calls);
    keep(world_.worker.receive(to, bytes, from, tag_of(from)), from);
  }
  void keep(void* handle, int rank) {
    if (handle != nullptr) requests_.push_back({handle, rank});
  }

  UcxWorld& world_;
  MessageWire::Plane plane_;
  std::vector<Request> requests_;
  std::vector<std::byte> signs_;  // of a barrier
};

class UcxWire : public MessageWire {
 public:
  UcxWire(int rank, int size) : world_(rank, size) {}
  int rank() const override { return world_.rank; }
  int size() const override { return world_.size; }
  std::string description() const override { return str(world_.size, " processes (UCX messages)"); }
  std::unique_ptr<MessageShape> shape(std::span<const ByteRun> runs) override {
    auto shape = std::make_unique<UcxShape>(runs);
    if (shape->runs().empty()) return nullptr;
    return shape;
  }
  std::unique_ptr<MessageBatch> batch(Plane plane) override { return std::make_unique<UcxBatch>(world_, plane); }
  void finish() override {
    const std::lock_guard lock(world_.calls);
    world_.worker.close();
  }
  UcxWorld& world() { return world_; }

 private:
  UcxWorld world_;
};

/// Moves messages while this thread waits for other ranks by other means.
class Progress {
 public:
  explicit Progress(UcxWorld& world)
      : thread_([&world](const std::stop_token& stop) {
          for (; !stop.stop_requested(); std::this_thread::sleep_for(100us)) {
            const std::lock_guard lock(world.calls);
            world.worker.progress();
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<MessageWire> make_ucx_wire(Bootstrap& ranks) {
  constexpr auto kPatience = 60s;
  std::unique_ptr<UcxWire> wire;
  std::string address;
  run_on_all_ranks(ranks, [&] {
    wire = std::make_unique<UcxWire>(ranks.rank(), ranks.size());
    address = wire->world().worker.address();
  });
  const std::vector<std::string> addresses = ranks.gather(address);
  const Progress progress(wire->world());
  run_on_all_ranks(ranks, [&] {
    const std::lock_guard lock(wire->world().calls);
    for (int rank = 0; rank < ranks.size(); ++rank)
      if (rank != ranks.rank()) wire->world().worker.connect(rank, addresses[static_cast<size_t>(rank)]);
  });
  // The first messages show whether any get through; no watchdog can end a wait for ever yet.
  const std::unique_ptr<MessageBatch> batch = wire->batch(MessageWire::Plane::control);
  run_on_all_ranks(ranks, [&] {
    batch->barrier();
    // A long time between two looks means that the job was suspended: it is not time that messages had.
    auto waited = Clock::duration::zero();
    for (auto looked = Clock::now(); !batch->done();) {
      const auto now = Clock::now();
      waited += std::min<Clock::duration>(now - looked, 1s);
      looked = now;
      if (waited >= kPatience)
        fail(ExitCode::peer, "messages by UCX do not reach all ranks from host ", host_name(),
             ": set UCX_NET_DEVICES to the network that connects the hosts, such as eth0, and allow all TCP ports on "
             "it");
    }
  });
  return wire;
}

std::string ucx_library() {
  try {
    return str("UCX ", open_ucx().version_string());
  } catch (const Error& error) {
    return str("none (", error.what(), ")");
  }
}

}  // namespace ct
