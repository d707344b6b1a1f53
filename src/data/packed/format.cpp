#include "data/packed/format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/utf8.h"
#include "base/wrong_download.h"
#include "data/dataset.h"

namespace ct {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMostPictures = std::numeric_limits<uint32_t>::max();

uint32_t crc_of(PackedHeader header) {
  header.header_crc = 0;
  return crc32c(std::as_bytes(std::span(&header, 1)));
}

template <class... Parts>
[[noreturn]] void wrong(const Parts&... parts) {
  fail(ExitCode::data, parts...);
}

PackedHeader read_header(std::span<const std::byte> file) {
  if (file.empty()) wrong("empty");
  if (const std::string_view other = wrong_download(file); !other.empty()) wrong(other);
  if (!is_packed(file)) wrong("not a packed file");
  PackedHeader header;
  if (file.size() < sizeof header) wrong("truncated: ", file.size(), " bytes, its header alone has ", sizeof header);
  std::memcpy(&header, file.data(), sizeof header);
  if (header.version != kPackedVersion)
    wrong("written by another version of the program, in format ", header.version, ", but this version reads format ",
          kPackedVersion);
  if (header.header_crc != crc_of(header)) wrong("damaged: its header does not match its checksum");
  if (file.size() != header.file_bytes)
    wrong(file.size() < header.file_bytes ? "truncated: " : "too long: ", file.size(), " bytes where ",
          header.file_bytes, " belong");
  return header;
}

/// Numbers that its own checksum vouches for, but whoever wrote it may have been wrong.
void check_sizes(const PackedHeader& h) {
  const bool countable = h.train > 0 && h.test > 0 && h.train <= kMostPictures && h.test <= kMostPictures &&
                         h.train + h.test <= kMostPictures && h.classes > 0 && h.classes <= uint64_t{kMostClasses} &&
                         h.text_bytes <= std::numeric_limits<uint32_t>::max();
  if (!countable || h.index_bytes > h.file_bytes - sizeof h ||
      sizeof h + h.index_bytes != packed_front_bytes(h.train + h.test, h.classes, h.text_bytes))
    wrong("damaged: its header contradicts itself");
}

void check_entries(const PackedIndex& index, const PackedHeader& header) {
  const uint64_t begin = sizeof header + header.index_bytes;
  uint32_t name_end = index.class_text;
  for (size_t i = 0; i < index.entries.size(); ++i) {
    const PackedEntry& e = index.entries[i];
    const bool lies_in = e.offset >= begin && e.offset <= header.file_bytes && e.bytes <= header.file_bytes - e.offset;
    if (!lies_in || e.bytes == 0) wrong("damaged: picture ", i, " is not within the file");
    if (e.label >= header.classes)
      wrong("damaged: picture ", i, " has label ", e.label, ", the classes are 0 to ", header.classes - 1);
    if (e.name_end < name_end || e.name_end > header.text_bytes) wrong("damaged: the name of picture ", i);
    name_end = e.name_end;
  }
  if (name_end != header.text_bytes) wrong("damaged: bytes after the last name");
}

bool is_line(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0 || is_control(text, at)) return false;
    at += length;
  }
  return !text.empty();
}

}  // namespace

std::string_view PackedIndex::name(Split split, int64_t i) const {
  const size_t at = static_cast<size_t>(i + (split == Split::train ? 0 : train));
  // Ends were in order when the file was opened; it may have been written over since.
  const size_t end = std::min<size_t>(entries[at].name_end, text.size());
  const size_t begin = std::min<size_t>(at == 0 ? class_text : entries[at - 1].name_end, end);
  return text.substr(begin, end - begin);
}

std::span<const std::byte> packed_bytes(std::span<const std::byte> file, const PackedEntry& picture) {
  const bool inside = picture.offset <= file.size() && picture.bytes <= file.size() - picture.offset;
  return inside ? file.subspan(picture.offset, picture.bytes) : std::span<const std::byte>();
}

std::string packed_problem(std::span<const std::byte> file, const PackedEntry& picture) {
  const std::span<const std::byte> held = packed_bytes(file, picture);
  if (held.size() == picture.bytes && crc32c(held) == picture.crc) return "";
  return "damaged: its bytes do not match their checksum";
}

bool is_packed(std::span<const std::byte> file) {
  return file.size() >= kPackedMagic.size() && std::memcmp(file.data(), kPackedMagic.data(), kPackedMagic.size()) == 0;
}

PackedIndex read_packed_index(std::span<const std::byte> file) {
  const PackedHeader header = read_header(file);
  check_sizes(header);
  const auto index = file.subspan(sizeof header, header.index_bytes);
  if (header.index_crc != crc32c(index)) wrong("damaged: its index does not match its checksum");
  const auto* const entries = reinterpret_cast<const PackedEntry*>(index.data());
  const size_t pictures = header.train + header.test;
  const auto* const ends = reinterpret_cast<const uint32_t*>(entries + pictures);
  PackedIndex found{.entries = {entries, pictures},
                    .train = static_cast<int64_t>(header.train),
                    .text = {reinterpret_cast<const char*>(ends + header.classes), header.text_bytes}};
  for (uint32_t c = 0; c < header.classes; ++c) {
    if (ends[c] < found.class_text || ends[c] > header.text_bytes) wrong("damaged: the name of class ", c);
    const std::string_view name = found.text.substr(found.class_text, ends[c] - found.class_text);
    if (!is_line(name)) wrong("damaged: the name of class ", c, " is not a line of text");
    found.class_names.emplace_back(name);
    found.class_text = ends[c];
  }
  check_entries(found, header);
  return found;
}

uint64_t packed_front_bytes(uint64_t pictures, uint64_t classes, uint64_t text_bytes) {
  return sizeof(PackedHeader) + pictures * sizeof(PackedEntry) + classes * sizeof(uint32_t) + text_bytes;
}

std::vector<std::byte> packed_front(std::span<const std::string> class_names, std::span<const PackedPicture> train,
                                    std::span<const PackedPicture> test, uint64_t file_bytes) {
  std::string text;
  std::vector<uint32_t> ends;
  std::vector<PackedEntry> entries;
  entries.reserve(train.size() + test.size());
  for (const std::string& name : class_names) ends.push_back(static_cast<uint32_t>((text += name).size()));
  for (const auto pictures : {train, test})
    for (const PackedPicture& p : pictures)
      entries.push_back(
          {p.offset, p.bytes, p.crc, static_cast<uint32_t>(p.label), static_cast<uint32_t>((text += p.name).size())});
  if (text.size() > std::numeric_limits<uint32_t>::max() || entries.size() > kMostPictures)
    fail(ExitCode::data, entries.size(), " pictures with ", text.size(), " bytes of names are too many for one file");

  PackedHeader header{.magic = {},
                      .version = kPackedVersion,
                      .header_crc = 0,
                      .file_bytes = file_bytes,
                      .index_bytes = packed_front_bytes(entries.size(), ends.size(), text.size()) - sizeof header,
                      .index_crc = 0,
                      .classes = static_cast<uint32_t>(ends.size()),
                      .train = train.size(),
                      .test = test.size(),
                      .text_bytes = text.size()};
  std::memcpy(header.magic, kPackedMagic.data(), sizeof header.magic);
  std::vector<std::byte> front(sizeof header + header.index_bytes);
  size_t at = sizeof header;
  const auto append = [&](std::span<const std::byte> bytes) {
    std::memcpy(front.data() + at, bytes.data(), bytes.size());
    at += bytes.size();
  };
  append(std::as_bytes(std::span(entries)));
  append(std::as_bytes(std::span(ends)));
  append(std::as_bytes(std::span(text)));
  header.index_crc = crc32c(std::span(front).subspan(sizeof header));
  header.header_crc = crc_of(header);
  std::memcpy(front.data(), &header, sizeof header);
  return front;
}

}  // namespace ct
