#include "comm/rendezvous/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>

#include "base/files.h"
#include "base/host.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "base/version.h"
#include "comm/all_ranks.h"
#include "comm/rendezvous/hello.h"

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kConnectPatience = 1s, kHelloPatience = 5s;
constexpr size_t kMostUnknown = 64;  // connections that have not said who they are, beside one of every rank
constexpr size_t kMostNotices = 5;

template <size_t n>
void put(std::array<char, n>& field, const std::string& text) {
  text.copy(field.data(), n - 1);
}
template <size_t n>
std::string get(const std::array<char, n>& field) {
  return printable(std::string_view(field.data(), strnlen(field.data(), n)));
}

std::string program_text() { return str(version(), " (", commit(), ")"); }
std::string digest_of(const std::string& job) { return sha256_hex(job.data(), job.size()); }

void send_reply(Connection& to, Reply::Verdict verdict, ExitCode code = ExitCode::done, const std::string& why = "") {
  Reply reply{.verdict = verdict, .code = static_cast<int32_t>(code)};
  put(reply.text, why);
  to.send(bytes_of(reply));
}

bool bind_to(int fd, const sockaddr_in& at) { return bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0; }

/// Rank 0's side: which ranks have connected, and which connections have not said yet whose they are.
class RollCall {
 public:
  RollCall(int listener, const Endpoint& at, int size, const RendezvousOptions& options)
      : listener_(listener), at_(at), size_(size), options_(options) {
    star_.to.resize(static_cast<size_t>(size));
    star_.names.resize(static_cast<size_t>(size));
    callers_.resize(static_cast<size_t>(size));
  }

  Star run() {
    for (const auto end = options_.deadline(); !complete();) {
      std::vector<pollfd> events{{listener_, POLLIN, 0}};
      for (const Unknown& unknown : unknown_) events.push_back({unknown.line.fd(), POLLIN, 0});
      poll(events.data(), events.size(), 100);
      accept_all();
      for (Unknown& unknown : unknown_) {
        if (!is_judged(unknown)) continue;
        unknown.line.close();
      }
      std::erase_if(unknown_, [](const Unknown& unknown) { return !unknown.line.open(); });
      look_for_leavers();
      try {
        options_.throw_if_stopped();
      } catch (const Error& error) {
        end_for_all(error.code(), error.what());
      }
      if (!complete() && Clock::now() >= end)
        end_for_all(ExitCode::peer,
                    str(missing(), " did not connect to host ", host_name(), ", ", text_of(at_), ", within ",
                        options_.timeout_s, " s: start all ranks, and allow TCP connections between their hosts"));
    }
    for (Connection& line : star_.to) send_reply(line, Reply::begin);
    return std::move(star_);
  }

 private:
  struct Unknown {
    Connection line;
    std::string address;
    Clock::time_point until;
  };

  bool complete() const { return std::all_of(star_.to.begin() + 1, star_.to.end(), std::mem_fn(&Connection::open)); }

  void notice(const std::string& text) {
    if (options_.notice && notices_++ < kMostNotices) options_.notice(text);
  }

  void accept_all() {
    sockaddr_in from{};
    socklen_t length = sizeof from;
    for (int fd; (fd = accept4(listener_, reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC)) >= 0;
         length = sizeof from) {
      unknown_.push_back({Connection(fd), text_of(from), Clock::now() + kHelloPatience});
      if (unknown_.size() > static_cast<size_t>(size_) + kMostUnknown) unknown_.erase(unknown_.begin());
    }
  }

  /// Whether the connection is a rank's, which moves it into the star, or is to be closed.
  bool is_judged(Unknown& unknown) {
    unknown.line.receive();
    Hello hello;
    const bool whole = unknown.line.next(room_of(hello));
    if (!whole && unknown.line.open() && Clock::now() < unknown.until) return false;
    if (whole && hello.magic == kMagic)
      judge(unknown, hello);
    else
      notice(str("rejected a connection from ", unknown.address, ": not a rank of this job"));
    return true;
  }

  void judge(Unknown& unknown, const Hello& hello) {
    const std::string who = str("rank ", hello.rank, " (pid ", hello.pid, ", host ", get(hello.host), ")");
    if (get(hello.job) != digest_of(at_.job)) {
      send_reply(unknown.line, Reply::another_job);
      notice(str("rejected a connection from ", unknown.address, ": not a rank of this job, but ", who, " of another"));
      return;
    }
    std::string why;
    const auto rank = static_cast<size_t>(hello.rank);
    if (get(hello.program) != program_text())
      why = str(who, " runs cifar-train ", get(hello.program), ", and rank 0 ", program_text(),
                ": install the same program on all hosts");
    else if (hello.size != size_)
      why = str(who, " has WORLD_SIZE=", hello.size, ", and rank 0 ", size_, ": give all ranks of a job the same");
    else if (hello.rank < 1 || hello.rank >= size_)
      why =
          str(who, " connected to rank 0 of ", size_, " ranks: give each rank a number (RANK, --node_rank) of its own");
    else if (is_there(rank) &&
             callers_[rank] != get(hello.caller))  // who may try again, if the first time took too long
      why = str("two ranks have the same number: ", star_.names[rank], " and ", who,
                ": give each a number (RANK, --node_rank) of its own");
    if (!why.empty()) {
      send_reply(unknown.line, Reply::refused, ExitCode::usage, why);
      end_for_all(ExitCode::usage, why);
    }
    send_reply(unknown.line, Reply::welcome);
    std::swap(star_.to[rank], unknown.line);
    star_.names[rank] = who;
    callers_[rank] = get(hello.caller);
  }

  bool is_there(size_t rank) {
    star_.to[rank].receive();
    return star_.to[rank].open();
  }

  void look_for_leavers() {
    for (size_t rank = 1; rank < star_.to.size(); ++rank)
      if (star_.to[rank].open() && !is_there(rank) && options_.notice)
        options_.notice(star_.names[rank] + " disconnected before all ranks had connected; it may connect again");
  }

  /// "rank 2", "ranks 1, 3"
  std::string missing() const {
    constexpr int kMost = 8;
    std::string ranks;
    int count = 0;
    for (size_t rank = 1; rank < star_.to.size(); ++rank)
      if (!star_.to[rank].open() && ++count <= kMost) ranks += str(count > 1 ? ", " : "", rank);
    return str(count == 1 ? "rank " : "ranks ", ranks, count > kMost ? str(" and ", count - kMost, " more") : "");
  }

  [[noreturn]] void end_for_all(ExitCode code, const std::string& why) {
    for (Connection& line : star_.to) send_reply(line, Reply::over, code, why);
    throw Error(code, why);
  }

  int listener_;
  const Endpoint& at_;
  int size_;
  const RendezvousOptions& options_;
  Star star_;
  std::vector<std::string> callers_;  // by rank
  std::vector<Unknown> unknown_;
  size_t notices_ = 0;
};

/// The next reply; none: the other end has gone, or said nothing in time.
std::optional<Reply> read_reply(Connection& line, Clock::time_point end, const RendezvousOptions& options) {
  for (Reply reply;; line.exchange(100)) {
    if (line.next(room_of(reply))) return reply;
    options.throw_if_stopped();
    if (!line.open() || Clock::now() >= end) return std::nullopt;
  }
}

}  // namespace

Hello hello_of(const std::string& job) {
  Hello hello;
  put(hello.job, digest_of(job));
  put(hello.program, program_text());
  return hello;
}

std::chrono::steady_clock::time_point RendezvousOptions::deadline() const {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s));
}

void RendezvousOptions::throw_if_stopped() const {
  if (give_up())
    fail(ExitCode::stopped, "stopped on request before all ranks had connected; start the same command again");
}

// ---- rank 0

Listener::Listener(Endpoint at, int size) : at_(std::move(at)), size_(size), fd_(-1) {
  const std::string& name = at_.addresses.front();
  const auto addresses = resolve(at_);
  const auto is_own = [](in_addr_t address) {
    const sockaddr_in any_port = socket_address(address, 0);
    return is_own_address(reinterpret_cast<const sockaddr*>(&any_port), sizeof any_port);
  };
  if (std::ranges::none_of(addresses, is_own))
    fail(ExitCode::usage, "MASTER_ADDR=", in_quotes(name), " is not an address of host ", host_name(),
         ", where rank 0 runs: give that host's, or start rank 0 there");
  // Names of the loopback are for this host alone.
  const bool loopback = name == "localhost" || name.starts_with("127.");
  int problem = EADDRINUSE;
  for (int port = at_.port; fd_ < 0 && problem == EADDRINUSE && port < at_.port + at_.ports; ++port) {
    const int fd = stream_socket(), on = 1;
    if (fd < 0) fail(ExitCode::usage, "rank 0 cannot listen on TCP ports: ", std::strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in here = socket_address(loopback ? addresses.front() : htonl(INADDR_ANY), port);
    const bool listens = bind_to(fd, here) && listen(fd, size + int{kMostUnknown}) == 0;
    problem = errno;
    if (listens)
      fd_ = fd;
    else
      close(fd);
  }
  if (fd_ >= 0) return;
  if (problem == EADDRINUSE)
    fail(ExitCode::usage, "TCP port ", text_of(at_), " is in use on host ", host_name(),
         ": another job has it, or ranks of an earlier one still run; give another MASTER_PORT (--master_port)");
  fail(ExitCode::usage, "rank 0 cannot listen at ", text_of(at_), " (", std::strerror(problem),
       "): give another MASTER_PORT (--master_port)");
}

Listener::Listener(int size)
    : at_{.addresses = own_addresses(), .job = random_word()}, size_(size), fd_(stream_socket()) {
  sockaddr_in here = socket_address(htonl(INADDR_ANY), 0);
  socklen_t length = sizeof here;
  if (fd_ >= 0 && bind_to(fd_, here) && listen(fd_, size + int{kMostUnknown}) == 0 &&
      getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &length) == 0) {
    at_.port = ntohs(here.sin_port);
    return;
  }
  const int problem = errno;
  if (fd_ >= 0) close(fd_);
  fail(ExitCode::peer, "it cannot listen for TCP connections of other ranks (", std::strerror(problem),
       "): raise its limit of open files, or allow it IPv4");
}

Listener::~Listener() { close(fd_); }

Star Listener::accept_ranks(const RendezvousOptions& options) const { return RollCall(fd_, at_, size_, options).run(); }

// ---- the others

Star connect_to_rank_0(const Endpoint& at, int rank, int size, const RendezvousOptions& options) {
  Hello hello = hello_of(at.job);
  hello.rank = rank;
  hello.size = size;
  hello.pid = static_cast<int32_t>(getpid());
  put(hello.host, host_name());
  put(hello.caller, random_word());
  const std::string me = str("rank ", rank, " (host ", host_name(), ")");
  std::string problem = "the host name is not known yet";

  /// A connection to rank 0 of this job, or none and the `problem`.
  const auto try_at = [&](const sockaddr_in& there) -> Connection {
    Connection line = connect_to(there, kConnectPatience);
    if (!line.open()) {
      problem = str(text_of(there), ": ", std::strerror(errno));
      return {};
    }
    line.send(bytes_of(hello));
    const auto reply = read_reply(line, Clock::now() + kHelloPatience, options);
    if (!reply || reply->magic != kMagic) {
      problem = text_of(there) + " is another program's, or rank 0 is frozen";
      return {};
    }
    if (reply->verdict == Reply::refused) throw Error(exit_code_of_peer(reply->code), get(reply->text));
    if (reply->verdict != Reply::another_job) return line;
    problem = text_of(there) + " is rank 0 of another job";
    if (at.ports == 1 && at.addresses.size() == 1)
      fail(ExitCode::usage, me, ": ", problem, ": give this one another MASTER_PORT (--master_port)");
    return {};
  };
  const auto try_all = [&]() -> Connection {
    for (const in_addr_t address : resolve(at))
      for (int port = at.port; port < at.port + at.ports; ++port)
        if (Connection line = try_at(socket_address(address, port)); line.open()) return line;
    return {};
  };

  const auto end = options.deadline();
  Connection line;
  while (!(line = try_all()).open()) {
    poll(nullptr, 0, 100);
    options.throw_if_stopped();
    if (Clock::now() >= end)
      fail(ExitCode::peer, me, " did not reach rank 0 at ", text_of(at), " within ", options.timeout_s, " s (", problem,
           "): start rank 0 there, and allow TCP connections between the hosts; where its ranks are complete already, "
           "this one is one too many");
  }
  const auto reply = read_reply(line, options.deadline() + 10s, options);
  if (!reply && line.open())
    fail(ExitCode::peer, me, " received no answer from rank 0 at ", text_of(at),
         ": look whether it is frozen, then start the same command again");
  if (!reply)
    fail(ExitCode::peer, me, ": rank 0 at ", text_of(at),
         " was lost before all ranks had connected: start the same command again");
  if (reply->verdict != Reply::begin) throw RankZeroError(exit_code_of_peer(reply->code), get(reply->text));
  Star star{std::vector<Connection>(static_cast<size_t>(size)), {"rank 0 at " + text_of(at)}};
  star.to[0] = std::move(line);
  return star;
}

// ---- both

Star make_star(Bootstrap& ranks, double timeout_s) {
  std::optional<Listener> listener;
  Star star;
  run_on_all_ranks(ranks, [&] {
    if (ranks.rank() == 0) listener.emplace(ranks.size());
  });
  std::string text;
  if (listener) {
    const Endpoint& at = listener->endpoint();
    text = str(at.port, " ", at.job);
    for (const std::string& address : at.addresses) text += " " + address;
  }
  std::istringstream words(from_rank_0(ranks, text));
  Endpoint at;
  words >> at.port >> at.job;
  for (std::string address; words >> address;) at.addresses.push_back(address);
  const RendezvousOptions options{.timeout_s = timeout_s};
  run_on_all_ranks(ranks, [&] {
    star = listener ? listener->accept_ranks(options) : connect_to_rank_0(at, ranks.rank(), ranks.size(), options);
  });
  return star;
}

}  // namespace ct
