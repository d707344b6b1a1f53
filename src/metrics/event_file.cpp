#include "metrics/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <optional>
#include <set>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"
#include "base/protobuf_writer.h"
#include "metrics/png.h"

namespace ct {
namespace {

using std::string_view, std::chrono::system_clock;
using Message = ProtobufMessage;

constexpr string_view kPrefix = "events.out.tfevents.", kVersion = "brain.Event:2";

template <class T>
std::string raw(const T& value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

Message event(int64_t step) {
  const double now = std::chrono::duration<double>(system_clock::now().time_since_epoch()).count();
  return Message().fixed(1, now).number(2, step);
}

std::string masked_crc(string_view bytes) { return raw(std::rotr(crc32c(bytes), 15) + 0xa282ead8); }

std::string record(string_view event) {
  const std::string length = raw(uint64_t{event.size()});
  return length + masked_crc(length) + std::string(event) + masked_crc(event);
}

string_view take(string_view& from, uint64_t bytes) {
  const string_view taken = from.substr(0, bytes);
  from.remove_prefix(taken.size());
  return taken;
}

uint64_t take_varint(string_view& from) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(take(from, 1)[0]);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

/// The event of the next record; none where the file ends, in whatever way.
std::optional<string_view> take_event(string_view& from) {
  string_view rest = from;
  const string_view length = take(rest, 8);
  uint64_t bytes = 0;
  std::ranges::copy(length, reinterpret_cast<char*>(&bytes));
  if (take(rest, 4) != masked_crc(length)) return {};
  const string_view event = take(rest, bytes);
  if (take(rest, 4) != masked_crc(event)) return {};
  return from = rest, event;
}

/// The first field of that number: its bytes, and where it is a number that.
std::pair<string_view, uint64_t> find(string_view message, uint64_t wanted) {
  while (!message.empty()) {
    const uint64_t key = take_varint(message), kind = key & 7,
                   number = kind == 0 || kind == 2 ? take_varint(message) : 0;
    const string_view bytes = take(message, kind == 0 ? 0 : kind == 1 ? 8 : kind == 5 ? 4 : number);
    if (key >> 3 == wanted) return {bytes, number};
  }
  return {};
}
string_view inside(string_view message, uint64_t wanted) { return find(message, wanted).first; }
int64_t step_of(string_view event) { return static_cast<int64_t>(find(event, 2).second); }
string_view tag_of(string_view event) { return inside(inside(inside(event, 5), 1), 1); }

/// TensorBoard reads the files of a folder in the order of their names, which begin with the time.
File create(FileSystem& files, const Path& folder) {
  make_folders(files, folder);
  int64_t seconds = system_clock::to_time_t(system_clock::now()), other = 0;
  for (const std::string& name : list_folder(folder))
    if (name.starts_with(kPrefix))
      if (std::from_chars(&name[kPrefix.size()], &name[name.size()], other).ec == std::errc())
        seconds = std::max(seconds, other + 1);
  File file(files, folder / str(kPrefix, seconds, ".", host_name(), ".", getpid()), O_WRONLY | O_CREAT | O_EXCL);
  sync_folder(files, folder);
  return file;
}

}  // namespace

std::string writer_of_events(const Path& path) {
  if (!path.filename().native().starts_with(kPrefix) || kind_of_entry(path) != PathKind::file) return "";
  const MappedFile file(path);
  string_view text = file.text();
  const string_view first = take_event(text).value_or("");
  const std::string writer(inside(first, 3) == kVersion ? inside(inside(first, 10), 1) : "");
  file.require_whole(ExitCode::io);
  return writer;
}

EventFile::EventFile(FileSystem& files, const Path& folder, string_view writer, int64_t x, const Keep& keep)
    : file_(create(files, folder)) {
  file_.write(record(event(0).bytes(3, kVersion).message(10, Message().bytes(1, writer)).text()));
  file_.write(record(event(x).message(7, Message().number(1, /*START*/ 1)).text()));
  std::set<std::string, std::less<>> seen;  // a kill between the writes below leaves some twice
  std::vector<std::pair<Path, std::string>> changed;
  for (const std::string& name : list_folder(folder)) {
    const Path path = folder / name;
    if (path == file_.path() || writer_of_events(path) != writer) continue;
    remove_file(files, temporary_of(path));  // of a kill below; TensorBoard would read it too
    const std::string old = read_file(path);
    string_view rest = old;
    std::string kept;
    bool shows = false;
    while (const auto event = take_event(rest)) {
      const bool value = !tag_of(*event).empty(), moves = value && step_of(*event) >= x;
      if (value && (!keep(tag_of(*event), step_of(*event)) || !seen.emplace(*event).second)) continue;
      if (moves)
        file_.write(record(*event));
      else
        kept += record(*event), shows |= value;
    }
    if (kept != old || !shows) changed.emplace_back(path, shows ? kept : "");
  }
  if (!changed.empty()) sync();  // what has moved must not be lost by a crash
  for (const auto& [path, text] : changed)
    text.empty() ? remove_file(files, path) : write_file_atomic(files, path, text);
}

void EventFile::write(int64_t x, const std::vector<SummaryValue>& values) {
  Message summary;
  for (const SummaryValue& value : values) summary.bytes(1, value);
  if (file_.removed()) fail(ExitCode::io, file_.path().string(), ": was removed while the run used it");
  file_.write(record(event(x).message(5, summary).text()));
}

SummaryValue scalar_summary(string_view tag, double value) {
  return Message().bytes(1, tag).fixed(2, static_cast<float>(value)).text();
}

SummaryValue histogram_summary(string_view tag, std::span<const float> values) {
  constexpr int kBuckets = 30;
  double counts[kBuckets] = {}, limits[kBuckets], sum = 0, squares = 0;  // limits: the upper ones
  const auto [least, most] = std::ranges::minmax(values);
  const double width = std::max((double{most} - least) / kBuckets, 1e-9);
  for (int i = 0; i < kBuckets; ++i) limits[i] = least + width * (i + 1);
  for (const double v : values) {
    counts[std::min(static_cast<int>((v - least) / width), kBuckets - 1)] += 1;
    sum += v, squares += v * v;
  }
  Message histogram;
  histogram.fixed(1, double{least}).fixed(2, double{most}).fixed(3, static_cast<double>(values.size()));
  histogram.fixed(4, sum).fixed(5, squares).bytes(6, raw(limits)).bytes(7, raw(counts));
  return Message().bytes(1, tag).message(5, histogram).text();
}

SummaryValue image_summary(string_view tag, std::span<const uint8_t> pixels, int64_t width, int64_t channels) {
  const int64_t height = static_cast<int64_t>(pixels.size()) / width / channels;
  Message encoded;
  encoded.number(1, height).number(2, width).number(3, channels);
  return Message().bytes(1, tag).message(4, encoded.bytes(4, png_of(pixels, width, channels))).text();
}

SummaryValue text_summary(string_view tag, string_view markdown) {
  const Message plugin = Message().bytes(1, "text"), one = Message().number(1, 1);
  const Message tensor = Message().number(1, /*DT_STRING*/ 7).message(2, Message().message(2, one)).bytes(8, markdown);
  return Message().bytes(1, tag).message(9, Message().message(1, plugin)).message(8, tensor).text();
}

}  // namespace ct
