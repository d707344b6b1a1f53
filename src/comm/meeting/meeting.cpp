#include "comm/meeting/meeting.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/files.h"
#include "base/host.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "base/version.h"
#include "comm/object_bytes.h"

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// What travels. Plain data: all ranks run the same program on the same kind of machine, or are told so.

constexpr std::array<char, 16> kMagic = {'c', 'i', 'f', 'a', 'r', '-', 't', 'r', 'a', 'i', 'n', '-', 'm', '1', '\n', 0};
constexpr uint64_t kLongestText = uint64_t{64} << 20;

struct JoinHello {
  std::array<char, 16> magic = kMagic;
  std::array<char, 80> job{};  // a digest of the job's word
  std::array<char, 96> program{};
  std::array<char, 64> host{};
  int32_t rank = 0, size = 0, pid = 0;
};

struct Reply {
  enum Verdict : int32_t {
    welcome,      // wait for `begin` or `over`
    another_job,  // call elsewhere
    refused,      // for the reason in `text`, with `code`
    begin,        // all have come
    over,         // the meeting has failed, which rank 0 tells
  };
  std::array<char, 16> magic = kMagic;
  int32_t verdict = welcome, code = 0;
  std::array<char, 1008> text{};
};

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

std::string name_of(int rank, int64_t pid, const std::string& host) {
  return str("rank ", rank, " (pid ", pid, ", host ", host, ")");
}

std::string text_of(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> name{};
  inet_ntop(AF_INET, &address.sin_addr, name.data(), name.size());
  return str(name.data(), ":", ntohs(address.sin_port));
}

sockaddr_in socket_address(in_addr_t address, int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = address;
  at.sin_port = htons(static_cast<uint16_t>(port));
  return at;
}

/// The IPv4 addresses of a host; none where the name service has no answer yet.
std::vector<in_addr_t> resolve(const std::string& address) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const int problem = getaddrinfo(address.c_str(), nullptr, &hints, &found);
  if (problem == EAI_AGAIN) return {};
  if (problem != 0)
    fail(ExitCode::usage, "MASTER_ADDR=", in_quotes(address), " is no host that is known here (", gai_strerror(problem),
         "): give the name or IPv4 address of rank 0's host");
  std::vector<in_addr_t> addresses;
  for (const addrinfo* i = found; i != nullptr; i = i->ai_next)
    addresses.push_back(reinterpret_cast<const sockaddr_in*>(i->ai_addr)->sin_addr.s_addr);
  freeaddrinfo(found);
  return addresses;
}

int stream_socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/// Tries to take an address of this host: 0, or errno.
int bind_at(int fd, in_addr_t address, int port) {
  const sockaddr_in at = socket_address(address, port);
  return bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 ? 0 : errno;
}

bool is_own(in_addr_t address) {
  const sockaddr_in at = socket_address(address, 0);
  return is_own_address(reinterpret_cast<const sockaddr*>(&at), sizeof at);
}

/// Rank 0's socket. The address tells whom to trust: names of the loopback are for this host alone.
int listen_at(const MeetingPlace& place, int peers) {
  const auto addresses = resolve(place.address);
  if (std::ranges::none_of(addresses, is_own))
    fail(ExitCode::usage, "MASTER_ADDR=", in_quotes(place.address), " is no address of host ", host_name(),
         ", where rank 0 runs: give that host's, or start rank 0 there");
  const bool loopback = place.address == "localhost" || place.address.starts_with("127.");
  int problem = 0;
  for (int port = place.port; port < place.port + place.ports; ++port) {
    const int fd = stream_socket(), on = 1;
    if (fd < 0) fail(ExitCode::usage, "rank 0 cannot listen on TCP ports: ", std::strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    problem = bind_at(fd, loopback ? addresses.front() : htonl(INADDR_ANY), port);
    if (problem == 0 && listen(fd, peers + 64) == 0) return fd;
    if (problem == 0) problem = errno;
    close(fd);
    if (problem != EADDRINUSE) break;
  }
  if (problem == EADDRINUSE)
    fail(ExitCode::usage, "TCP port ", text_of(place), " is in use on host ", host_name(),
         ": another job has it, or ranks of an earlier one still run; give another MASTER_PORT (--master_port)");
  fail(ExitCode::usage, "rank 0 cannot listen at ", text_of(place), " (", std::strerror(problem),
       "): give another MASTER_PORT (--master_port)");
}

}  // namespace

/// One end of a connection.
class Meeting::Line {
 public:
  explicit Line(int fd) : fd_(fd) {
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() { close(fd_); }
  int fd() const { return fd_; }

  /// Has the other end gone, with nothing more to read?
  bool gone() const {
    char byte = 0;
    const ssize_t got = recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && !for_now());
  }
  /// What has arrived of a message that `have` bytes of are there; false: the other end has gone.
  bool take(std::span<std::byte> message, size_t& have) const {
    const ssize_t got = recv(fd_, message.data() + have, message.size() - have, 0);
    if (got > 0) have += static_cast<size_t>(got);
    return got > 0 || (got < 0 && for_now());
  }
  /// All of it, or false where the other end has gone. `wait` waits for the event and throws when it is enough.
  template <class Wait>
  bool read(std::span<std::byte> message, Wait wait) const {
    for (size_t have = 0; have < message.size();) {
      const size_t before = have;
      if (!take(message, have)) return false;
      if (have == before) wait(fd_, POLLIN);
    }
    return true;
  }
  template <class Wait>
  bool write(std::span<const std::byte> message, Wait wait) const {
    while (!message.empty()) {
      const ssize_t sent = ::send(fd_, message.data(), message.size(), MSG_NOSIGNAL);
      if (sent < 0 && !for_now()) return false;
      if (sent > 0)
        message = message.subspan(static_cast<size_t>(sent));
      else
        wait(fd_, POLLOUT);
    }
    return true;
  }
  /// To one who may not listen: what does not go out at once is lost.
  void tell(const Reply& reply) const { [[maybe_unused]] auto sent = ::send(fd_, &reply, sizeof reply, MSG_NOSIGNAL); }

 private:
  static bool for_now() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }
  int fd_;
};

/// Someone who has called and not said who it is: anybody.
struct Meeting::Caller {
  std::unique_ptr<Line> line;
  std::string address;
  Clock::time_point until;
  JoinHello hello;
  size_t have = 0;
};

namespace {

constexpr size_t kMostNotices = 5;

void wait_for_event(int fd, short events, int milliseconds) {
  pollfd event{fd, events, 0};
  poll(&event, 1, milliseconds);
}

Reply reply_of(Reply::Verdict verdict, ExitCode code = ExitCode::done, const std::string& why = "") {
  Reply reply{.verdict = verdict, .code = static_cast<int32_t>(code)};
  put(reply.text, why);
  return reply;
}

/// A connection to `at`, or -1 and errno.
int connect_to(const sockaddr_in& at) {
  const int fd = stream_socket();
  if (fd < 0) return -1;
  int problem = connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    pollfd ready{fd, POLLOUT, 0};
    socklen_t length = sizeof problem;
    if (poll(&ready, 1, 2000) != 1)
      problem = ETIMEDOUT;
    else
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
  }
  if (problem == 0) return fd;
  close(fd);
  errno = problem;
  return -1;
}

}  // namespace

Meeting::Meeting(const Launch& launch, const MeetingPlace& place, const MeetingOptions& options)
    : rank_(launch.rank),
      size_(launch.size),
      options_(options),
      lines_(static_cast<size_t>(launch.rank == 0 ? launch.size : 1)),
      names_(static_cast<size_t>(launch.size)) {
  names_[0] = "rank 0 at " + text_of(place);
  if (rank_ == 0)
    receive_all(place);
  else
    call_rank_0(place);
}

Meeting::~Meeting() = default;

void Meeting::pause(int milliseconds) const {
  if (milliseconds > 0) poll(nullptr, 0, milliseconds);
  if (options_.give_up && options_.give_up())
    fail(ExitCode::stopped, "stopped on request before all ranks had come; start the same command again");
}

// ---- rank 0

std::string Meeting::waited_for() const {
  std::string missing;
  int count = 0;
  for (int rank = 1; rank < size_; ++rank) {
    if (lines_[static_cast<size_t>(rank)] != nullptr) continue;
    if (++count <= 8) missing += str(count > 1 ? ", " : "", rank);
  }
  return str(count == 1 ? "rank " : "ranks ", missing, count > 8 ? str(" and ", count - 8, " more") : "");
}

void Meeting::end_for_all(ExitCode code, const std::string& why) {
  for (const auto& line : lines_)
    if (line != nullptr) line->tell(reply_of(Reply::over, code, why));
  throw Error(code, why);
}

void Meeting::look_for_leavers() {
  for (size_t rank = 1; rank < lines_.size(); ++rank) {
    if (lines_[rank] == nullptr || !lines_[rank]->gone()) continue;
    if (options_.notice) options_.notice(names_[rank] + " has left before all ranks had come; it may come again");
    lines_[rank].reset();
  }
}

void Meeting::receive_all(const MeetingPlace& place) {
  struct Listener {
    int fd;
    ~Listener() { close(fd); }
  } const listener{listen_at(place, size_)};
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_s));
  std::vector<Caller> callers;
  size_t notices = 0;
  const auto notice = [&](const std::string& text) {
    if (options_.notice && notices++ < kMostNotices) options_.notice(text);
  };

  /// Is the caller done with?
  const auto judge = [&](Caller& caller) {
    const JoinHello& hello = caller.hello;
    if (hello.magic != kMagic) {
      notice(str("a stranger at ", caller.address, " called where ranks meet, and was sent away"));
      return;
    }
    const std::string who = name_of(hello.rank, hello.pid, get(hello.host));
    if (get(hello.job) != digest_of(place.job)) {
      caller.line->tell(reply_of(Reply::another_job));
      notice(str(who, " of another job called where ranks meet, and was sent away"));
      return;
    }
    std::string why;
    if (get(hello.program) != program_text())
      why = str(who, " runs cifar-train ", get(hello.program), ", and rank 0 ", program_text(),
                ": install the same program on all hosts");
    else if (hello.size != size_)
      why = str(who, " has WORLD_SIZE=", hello.size, ", and rank 0 ", size_, ": give all ranks of a job the same");
    else if (hello.rank < 1 || hello.rank >= size_)
      why = str(who, " called rank 0 of ", size_, " ranks: give each rank a number (RANK, --node_rank) of its own");
    else if (const size_t rank = static_cast<size_t>(hello.rank); lines_[rank] != nullptr && !lines_[rank]->gone())
      why = str("there are two of one rank: ", names_[rank], " and ", who,
                ": give each a number (RANK, --node_rank) of its own");
    if (!why.empty()) {
      caller.line->tell(reply_of(Reply::refused, ExitCode::usage, why));
      end_for_all(ExitCode::usage, why);
    }
    caller.line->tell(reply_of(Reply::welcome));
    const auto rank = static_cast<size_t>(hello.rank);
    lines_[rank] = std::move(caller.line);
    names_[rank] = who;
  };

  const auto complete = [&] {
    return std::all_of(lines_.begin() + 1, lines_.end(), [](const auto& line) { return line != nullptr; });
  };
  while (!complete()) {
    std::vector<pollfd> events{{listener.fd, POLLIN, 0}};
    for (const Caller& caller : callers) events.push_back({caller.line->fd(), POLLIN, 0});
    poll(events.data(), events.size(), 100);
    sockaddr_in from{};
    socklen_t length = sizeof from;
    for (int fd;
         (fd = accept4(listener.fd, reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;
         length = sizeof from) {
      callers.push_back({std::make_unique<Line>(fd), text_of(from), Clock::now() + 5s, {}, 0});
      if (callers.size() > static_cast<size_t>(size_) + 64) callers.erase(callers.begin());
    }
    for (Caller& caller : callers) {
      const bool open = caller.line->take(room_of(caller.hello), caller.have);
      if (caller.have == sizeof caller.hello) {
        judge(caller);
        caller.line.reset();
      } else if (!open || Clock::now() >= caller.until) {
        notice(str("a stranger at ", caller.address, " called where ranks meet, and was sent away"));
        caller.line.reset();
      }
    }
    std::erase_if(callers, [](const Caller& caller) { return caller.line == nullptr; });
    look_for_leavers();
    try {
      pause(0);
    } catch (const Error& error) {
      end_for_all(error.code(), error.what());
    }
    if (!complete() && Clock::now() >= end)
      end_for_all(ExitCode::peer,
                  str(waited_for(), " did not come to host ", host_name(), ", ", text_of(place), ", within ",
                      options_.timeout_s, " s: start all ranks, and allow TCP connections between their hosts"));
  }
  for (const auto& line : lines_)
    if (line != nullptr) line->tell(reply_of(Reply::begin));
}

// ---- the others

void Meeting::call_rank_0(const MeetingPlace& place) {
  JoinHello hello{.rank = rank_, .size = size_, .pid = static_cast<int32_t>(getpid())};
  put(hello.job, digest_of(place.job));
  put(hello.program, program_text());
  put(hello.host, host_name());
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_s));
  std::string problem = "the name is not known yet";

  /// Sets lines_[0] where rank 0 of this job answers; else `problem`.
  const auto call = [&](const sockaddr_in& at) {
    const int fd = connect_to(at);
    if (fd < 0) {
      problem = str(text_of(at), ": ", std::strerror(errno));
      return;
    }
    auto line = std::make_unique<Line>(fd);
    Reply reply;
    size_t have = 0;
    if (line->write(bytes_of(hello), [](int socket, short events) { wait_for_event(socket, events, 100); })) {
      for (const auto patience = Clock::now() + 5s; have < sizeof reply && Clock::now() < patience; pause(0)) {
        wait_for_event(fd, POLLIN, 100);
        if (!line->take(room_of(reply), have)) break;
      }
    }
    if (have < sizeof reply || reply.magic != kMagic) {
      problem = str(text_of(at), " is answered by somebody else");
      return;
    }
    if (reply.verdict == Reply::another_job) {
      problem = str(text_of(at), " is rank 0 of another job");
      if (place.ports == 1)
        fail(ExitCode::usage, "rank ", rank_, " (host ", host_name(), "): ", problem,
             ": give this one another MASTER_PORT (--master_port)");
      return;
    }
    if (reply.verdict == Reply::refused) throw Error(static_cast<ExitCode>(reply.code), get(reply.text));
    lines_[0] = std::move(line);
  };

  while (lines_[0] == nullptr) {
    for (const in_addr_t address : resolve(place.address)) {
      for (int port = place.port; port < place.port + place.ports && lines_[0] == nullptr; ++port)
        call(socket_address(address, port));
      if (lines_[0] != nullptr) break;
    }
    if (lines_[0] != nullptr) break;
    pause(100);
    if (Clock::now() >= end)
      fail(ExitCode::peer, "rank ", rank_, " (host ", host_name(), ") did not reach rank 0 at ", text_of(place),
           " within ", options_.timeout_s, " s (", problem,
           "): start rank 0 there, and allow TCP connections between the hosts; where its ranks are complete already, "
           "this one is one too many");
  }

  const auto patience = Clock::now() +
                        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_s)) +
                        10s;
  Reply reply;
  const bool heard = lines_[0]->read(room_of(reply), [&](int fd, short events) {
    wait_for_event(fd, events, 100);
    pause(0);
    if (Clock::now() >= patience)
      fail(ExitCode::peer, "rank ", rank_, " (host ", host_name(), ") heard nothing of rank 0 at ", text_of(place));
  });
  if (!heard)
    fail(ExitCode::peer, "rank ", rank_, " (host ", host_name(), "): rank 0 at ", text_of(place),
         " was lost before all ranks had come: start the same command again");
  if (reply.verdict != Reply::begin) throw ToldError(static_cast<ExitCode>(reply.code), get(reply.text));
}

// ---- what is said then

std::vector<std::string> Meeting::gather(const std::string& mine, const std::function<void()>& while_waiting) {
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_s));
  const auto wait = [&](int fd, short events) {
    wait_for_event(fd, events, while_waiting ? 0 : 100);
    if (while_waiting) while_waiting();
    pause(0);
    if (Clock::now() >= end) fail(ExitCode::peer, "ranks that had met say nothing for ", options_.timeout_s, " s");
  };
  const auto left = [&](size_t rank) {
    fail(ExitCode::peer, names_[rank], " was lost while ranks met: start the same command again");
  };
  const auto write = [&](size_t rank, const std::string& text) {
    const uint64_t length = text.size();
    const Line& line = *lines_[rank];
    if (!line.write(bytes_of(length), wait) || !line.write(std::as_bytes(std::span(text)), wait)) left(rank);
  };
  const auto read = [&](size_t rank) {
    uint64_t length = 0;
    std::string text;
    const Line& line = *lines_[rank];
    if (!line.read(room_of(length), wait)) left(rank);
    if (length > kLongestText) fail(ExitCode::peer, names_[rank], " says too much: ", length, " bytes");
    text.resize(length);
    if (!line.read(std::as_writable_bytes(std::span(text)), wait)) left(rank);
    return text;
  };

  std::vector<std::string> all(static_cast<size_t>(size_));
  if (rank_ == 0) {
    all[0] = mine;
    for (size_t rank = 1; rank < all.size(); ++rank) all[rank] = read(rank);
    for (size_t rank = 1; rank < all.size(); ++rank)
      for (const std::string& text : all) write(rank, text);
  } else {
    write(0, mine);
    for (std::string& text : all) text = read(0);
  }
  return all;
}

std::string Meeting::from_rank_0(const std::string& text) { return gather(rank_ == 0 ? text : "")[0]; }

}  // namespace ct
