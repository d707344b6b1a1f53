#include "fetch/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/paths.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/wrong_download.h"
#include "fetch/address.h"
#include "fetch/http.h"

namespace ct {
namespace {

using namespace std::chrono_literals;

constexpr auto kWait = 100ms;        // between two tries to take a lock
constexpr auto kPause = 500ms;       // before a download goes on that hardly gained
constexpr int kMostSmallGains = 3;   // tries in a row of which none brings kGain bytes
constexpr uint64_t kGain = 1 << 14;  // bytes; with fewer in each answer a download would take days
// Statuses of HTTP.
constexpr int kNoMoreBytes = 416, kTooManyRequests = 429, kServerErrors = 500;
constexpr uint64_t kTooMany = 1 << 16;  // bytes more than the file has, after which a server is not heard any longer

/// "cifar-10-binary.tar.gz: 45.2 MB of 170.1 MB, 11.3 MB a second, 11 s left"
class Meter {
 public:
  explicit Meter(const PublishedFile& file) : file_(file) {}
  void add(size_t bytes) { received_ += static_cast<double>(bytes); }
  std::string text(uint64_t done) const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
    const double rate = received_ / std::max(seconds, 1e-3);
    std::string text = str(file_.name, ": ", human_bytes(done), " of ", human_bytes(file_.bytes));
    if (seconds < 1 || rate < 1) return text;
    text += str(", ", human_bytes(static_cast<uint64_t>(rate)), " a second");
    if (done < file_.bytes) text += str(", ", duration(static_cast<double>(file_.bytes - done) / rate), " left");
    return text;
  }

 private:
  const PublishedFile& file_;
  double received_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

/// An address as messages show it.
std::string shown_address(const std::string& address) { return printable(without_password(address)); }

bool is_wrong_download(const Path& path) {
  return !wrong_download(MappedFile(path, MappedFile::Links::follow, ExitCode::data).bytes()).empty();
}

}  // namespace

std::string checksum_text(const PublishedFile& file) {
  return file.md5.empty() ? "SHA-256 " + file.sha256 : "MD5 " + file.md5;
}

std::string difference(const Path& path, const PublishedFile& published) {
  const MappedFile file(path, MappedFile::Links::follow, ExitCode::data);
  const bool is_md5 = !published.md5.empty();
  const std::string found = is_md5 ? md5_hex(file.bytes()) : sha256_hex(file.bytes().data(), file.bytes().size());
  file.require_unchanged(ExitCode::data);
  if (found == (is_md5 ? published.md5 : published.sha256)) return "";
  if (found.empty()) return "cannot be verified, because this system's policy forbids MD5";
  if (const std::string_view other = wrong_download(file.bytes()); !other.empty()) return std::string(other);
  return str("another file: it has ", file.bytes().size(), " bytes and ", is_md5 ? "MD5 " : "SHA-256 ", found, ", not ",
             published.bytes, " bytes and ", checksum_text(published));
}

// ---- the lock

Download::Download(FileSystem& files, File file) : files_(&files), file_(std::make_unique<File>(std::move(file))) {}

std::optional<Download> Download::begin(FileSystem& files, const Path& partial,
                                        const std::function<void()>& make_folder, const std::function<bool()>& is_done,
                                        const DownloadOptions& options, Console& console) {
  for (bool waited = false;;) {
    if (waited) make_folder();
    File file(files, partial, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (files.lock(file.fd()) != 0 && errno == EWOULDBLOCK) {  // other errors: a file system without locks
      if (!std::exchange(waited, true) && options.tells_waiting) {
        console.note(str("waiting for another process, which is downloading ", partial.string()));
        console.progress("waiting for " + partial.string());
      }
      std::this_thread::sleep_for(kWait);
      continue;
    }
    if (!is_at(files, file.fd(), partial)) continue;  // the other process has renamed or removed it
    Download download(files, std::move(file));
    if (is_done()) return std::nullopt;  // and a file that was created here goes
    return download;
  }
}

Download::~Download() {
  struct stat info {};
  if (!file_ || ::fstat(file_->fd(), &info) != 0 || info.st_size > 0) return;
  if (is_at(*files_, file_->fd(), path())) files_->unlink(path());
}

uint64_t Download::size() const {
  struct stat info {};
  if (::fstat(file_->fd(), &info) != 0) fail_io("read", path(), errno);
  return static_cast<uint64_t>(info.st_size);
}

void Download::rename(const Path& to) {
  file_->sync();
  rename_file(*files_, path(), to);
  sync_folder(*files_, to.parent_path());
  file_.reset();
}

// ---- the bytes

/// One request for what is missing.
Download::Attempt Download::attempt(const std::string& address, const PublishedFile& file, std::chrono::seconds stall,
                                    Console& console) {
  uint64_t at = size();
  Meter meter(file);
  bool too_many = false;
  console.progress("downloading " + file.name);
  const HttpAnswer answer = http_get({.address = address,
                                      .from = at,
                                      .stall = stall,
                                      .begin =
                                          [&](uint64_t first) {
                                            if (first < at) file_->truncate(at = first);
                                          },
                                      .take =
                                          [&](std::span<const std::byte> bytes) {
                                            too_many = at + bytes.size() > file.bytes + kTooMany;
                                            if (too_many) return false;
                                            file_->write_at(bytes, at);
                                            at += bytes.size();
                                            meter.add(bytes.size());
                                            console.advance([&] { return meter.text(at); });
                                            return true;
                                          }});
  console.progress("");
  return {.status = answer.status,
          .too_many = too_many,
          .problem = too_many ? str("sends more than the ", file.bytes, " bytes of the file") : answer.problem};
}

/// Downloads from one address. No problem: the file is now the published one. Otherwise what is wrong there; bytes that
/// may be the file's beginning are kept.
Download::Outcome Download::try_address(const std::string& address, const PublishedFile& file,
                                        std::chrono::seconds stall, Console& console) {
  Outcome outcome;
  bool started_over = false, told = false;
  for (int small_gains = 0;;) {
    const uint64_t before = size();
    const Attempt got = attempt(address, file, stall, console);
    const uint64_t now = size();
    outcome.problem = got.problem;
    outcome.busy = got.status == kTooManyRequests || got.status >= kServerErrors;
    if (got.status >= 400 && (got.status != kNoMoreBytes || before == 0)) return outcome;

    bool is_other = got.too_many || got.status == kNoMoreBytes;
    if (got.problem.empty() || is_other || now >= file.bytes) {
      const std::string other = difference(path(), file);
      if (other.empty()) return {};
      is_other = is_other || now >= file.bytes || is_wrong_download(path());
      if (!got.too_many)
        outcome.problem = is_other ? other : str("the answer ended after ", now, " of ", file.bytes, " bytes");
    }
    if (is_other) {
      file_->truncate(0);
      outcome.gained = false;
      // Otherwise the beginning may have been of another version, or of another server.
      if (before == 0 || std::exchange(started_over, true)) return outcome;
      console.note(str(shown_address(address), ": ", outcome.problem, "; downloading it from its beginning"));
      continue;
    }
    outcome.gained = outcome.gained || now > before;
    small_gains = now < before + kGain ? small_gains + 1 : 0;
    if (now == 0 || small_gains == kMostSmallGains) return outcome;
    if (small_gains > 0 || !std::exchange(told, true))  // a server may cut a thousand times
      console.note(str(shown_address(address), ": ", outcome.problem, "; going on at byte ", now));
    if (small_gains > 0) std::this_thread::sleep_for(kPause);
  }
}

/// How a user gets the file, by what came of the addresses.
std::string Download::remedy(const PublishedFile& file, const DownloadOptions& options, const Outcome& all) const {
  const Path folder = path().parent_path(), own = folder / file.name;
  const std::string first = all.gained                ? "run the command again, which goes on where it stopped, or give"
                            : all.busy                ? "try again later, or give"
                            : options.mirrors.empty() ? "give"
                                                      : "check the address, or give";
  const bool is_own_wrong = kind_of(own, ExitCode::data) == PathKind::file;
  return str(first, " the address of another folder with this file (data fetch --mirror, or CIFAR_TRAIN_MIRROR), or ",
             is_own_wrong ? str("replace ", own.string(), " (", difference(own, file), ")")
                          : str("put the file into ", folder.string(), "/"));
}

void Download::complete(const Published& of, const PublishedFile& file, const DownloadOptions& options,
                        Console& console) {
  if (size() > 0 && difference(path(), file).empty()) return;
  Outcome all;
  for (const std::string& server : options.mirrors.empty() ? of.servers : options.mirrors) {
    const std::string address = str(server, server.ends_with('/') ? "" : "/", file.name);
    console.note(str("downloading ", shown_address(address), " (", human_bytes(file.bytes), ")",
                     size() > 0 ? str(", from byte ", size(), " on") : ""));
    const Outcome outcome = try_address(address, file, options.stall, console);
    if (outcome.problem.empty()) return;
    all.gained = all.gained || outcome.gained;
    all.busy = all.busy || outcome.busy;
    all.problem += str(all.problem.empty() ? "" : "; ", shown_address(address), ": ", outcome.problem);
  }
  fail(ExitCode::data, of.key, ": ", file.name, " was not downloaded: ", all.problem, "; ", remedy(file, options, all));
}

}  // namespace ct
