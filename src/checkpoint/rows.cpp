#include "checkpoint/rows.h"

#include <fcntl.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/crc32c.h"
#include "base/error.h"
#include "comm/all_ranks.h"

namespace ct {
namespace {

constexpr std::string_view kRemedy = ": use another checkpoint";

struct RowRange {
  int64_t begin, end, of;
};

/// Reads only what rows_text() writes; nothing for any other text.
std::optional<RowRange> parse_rows(const std::string& text) {
  RowRange s{};
  if (std::sscanf(text.c_str(), "%18" SCNd64 ":%18" SCNd64 " of %18" SCNd64, &s.begin, &s.end, &s.of) != 3)
    return std::nullopt;
  if (s.begin < 0 || s.begin > s.end || s.end > s.of || rows_text(s.begin, s.end, s.of) != text) return std::nullopt;
  return s;
}

template <class... Parts>
[[noreturn]] void refuse(const SafetensorsFile& file, const std::string& tensor, const Parts&... parts) {
  fail(ExitCode::checkpoint, in_quotes(file.path().native()), ": tensor ", in_quotes(tensor), " ", parts..., kRemedy);
}

RowRange row_range_of(const SafetensorsFile& file, const StoredTensor& tensor) {
  const int64_t rows = rows_of(tensor.shape);
  const auto entry = file.metadata().find(kRowsKey + tensor.name);
  if (entry == file.metadata().end()) return {0, rows, rows};
  const auto range = parse_rows(entry->second);
  if (!range || tensor.shape.empty() || range->end - range->begin != rows)
    refuse(file, tensor.name, "has ", rows, " rows and says that these are ", in_quotes(entry->second));
  return *range;
}

}  // namespace

// ---- writing

std::vector<WrittenRows> write_rows(File& file, const SafetensorsPlan& plan, std::span<const Rows> rows,
                                    const ReadRows& read, const std::function<void()>& after_bucket) {
  std::vector<WrittenRows> written;
  std::vector<std::byte> bucket;
  for (const Rows& all : rows) {
    const TensorSpec& tensor = plan.tensors()[all.tensor];
    const uint64_t row = row_bytes(tensor.dtype, tensor.shape);
    const int64_t at_once = std::max<int64_t>(1, static_cast<int64_t>(kBucketBytes / std::max<uint64_t>(row, 1)));
    WrittenRows done{.rows = all};
    for (int64_t begin = all.begin; begin < all.end; begin += at_once) {
      const Rows some{all.tensor, begin, std::min(begin + at_once, all.end)};
      const size_t bytes = static_cast<size_t>(some.end - some.begin) * row;
      if (bucket.size() < bytes) bucket.resize(bytes);
      const std::span<std::byte> out = std::span(bucket).first(bytes);
      read(some, out);
      file.write_at(out, plan.begin(all.tensor) + static_cast<uint64_t>(begin) * row);
      done.crc = crc32c(out, done.crc);
      done.finite = done.finite && all_finite(tensor.dtype, out);
      after_bucket();
    }
    written.push_back(done);
  }
  return written;
}

std::vector<size_t> not_finite(std::span<const WrittenRows> rows) {
  std::set<size_t> tensors;
  for (const WrittenRows& written : rows)
    if (!written.finite) tensors.insert(written.rows.tensor);
  return {tensors.begin(), tensors.end()};
}

std::vector<uint32_t> join(const SafetensorsPlan& plan, std::vector<WrittenRows> rows) {
  std::ranges::sort(rows, {}, [](const WrittenRows& w) { return std::pair(w.rows.tensor, w.rows.begin); });
  std::vector<uint32_t> crcs(plan.tensors().size(), 0);
  std::vector<int64_t> next(plan.tensors().size(), 0);
  for (const auto& [part, crc, finite] : rows) {
    const TensorSpec& tensor = plan.tensors()[part.tensor];
    check(next[part.tensor] == part.begin, "rows of ", tensor.name, " are written twice or by no rank");
    next[part.tensor] = part.end;
    const uint64_t bytes = static_cast<uint64_t>(part.end - part.begin) * row_bytes(tensor.dtype, tensor.shape);
    crcs[part.tensor] = crc32c_combine(crcs[part.tensor], crc, bytes);
  }
  for (size_t i = 0; i < next.size(); ++i)
    check(next[i] == rows_of(plan.tensors()[i].shape), "rows of ", plan.tensors()[i].name, " are written by no rank");
  return crcs;
}

void write_together(Communicator& comm, FileSystem& files, const Path& path, const std::vector<TensorSpec>& tensors,
                    const Metadata& metadata, std::span<const Rows> own, const ReadRows& read) {
  const SafetensorsPlan plan(tensors,
                             nlohmann::json::parse(from_rank_0(comm, nlohmann::json(metadata).dump())).get<Metadata>());
  const bool first = comm.rank() == 0;
  Path target, temporary;
  std::optional<File> file;
  try {
    run_on_all_ranks(comm, [&] {
      target = replaced_by_writing(path);
      temporary = temporary_of(target);
      if (!first) return;
      remove_file(files, temporary);  // of a run that was killed here
      file.emplace(files, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
      file->truncate(plan.bytes());
    });
    std::vector<WrittenRows> written;
    run_on_all_ranks(comm, [&] {
      if (!first) file.emplace(files, temporary, O_WRONLY | O_NOFOLLOW);
      written = write_rows(*file, plan, own, read, [&] { comm.heartbeat().advance(Phase::save); });
      if (first) return;
      file->sync();
      file->close();
    });
    written = gather<WrittenRows>(comm, written);
    run_on_all_ranks(comm, [&] {
      if (!first) return;
      file->write_at(plan.header(join(plan, written)), 0);
      file->sync();
      file->close();
      rename_file(files, temporary, target);
      sync_folder(files, target.parent_path());
    });
  } catch (const Error&) {
    if (first && !temporary.empty()) files.unlink(temporary);  // a full disk should not stay full because of us
    throw;
  }
}

// ---- reading

std::string rows_text(int64_t begin, int64_t end, int64_t of) { return str(begin, ":", end, " of ", of); }

TensorView LogicalTensor::view(std::vector<std::byte>& storage) const {
  if (pieces.size() == 1) return {name, dtype, shape, pieces.front().stored->data};
  storage.clear();
  for (const Piece& piece : pieces) storage.insert(storage.end(), piece.stored->data.begin(), piece.stored->data.end());
  return {name, dtype, shape, storage};
}

void LogicalTensor::visit(int64_t begin, int64_t end,
                          const std::function<void(int64_t, std::span<const std::byte>)>& f) const {
  const uint64_t row = row_bytes(dtype, shape);
  for (const Piece& piece : pieces) {
    const int64_t first = std::max(begin, piece.begin), last = std::min(end, piece.end);
    if (first >= last) continue;
    f(first, piece.stored->data.subspan(static_cast<size_t>(first - piece.begin) * row,
                                        static_cast<size_t>(last - first) * row));
  }
}

std::vector<LogicalTensor> logical_tensors(std::span<const SafetensorsFile> files) {
  std::map<std::string, LogicalTensor> by_name;
  for (const SafetensorsFile& file : files)
    for (const StoredTensor& stored : file.tensors()) {
      const RowRange range = row_range_of(file, stored);
      std::vector<int64_t> shape = stored.shape;
      if (!shape.empty()) shape[0] = range.of;
      const auto [at, is_new] = by_name.try_emplace(stored.name);
      LogicalTensor& tensor = at->second;
      if (is_new) {
        tensor.name = stored.name;
        tensor.dtype = stored.dtype;
        tensor.shape = shape;
      }
      if (tensor.dtype != stored.dtype || tensor.shape != shape)
        refuse(file, stored.name, "is part of ", describe({stored.name, stored.dtype, shape, {}}), ", but in ",
               in_quotes(tensor.pieces.front().file->path().filename().native()), " of ",
               describe({tensor.name, tensor.dtype, tensor.shape, {}}));
      tensor.pieces.push_back({range.begin, range.end, &stored, &file});
    }
  std::vector<LogicalTensor> tensors;
  for (auto& [name, tensor] : by_name) {
    std::ranges::sort(tensor.pieces, {}, [](const auto& piece) { return std::pair(piece.begin, piece.end); });
    int64_t next = 0;
    for (const LogicalTensor::Piece& piece : tensor.pieces) {
      if (piece.begin < next)
        refuse(*piece.file, name, "repeats rows from ", piece.begin, " on, which another file has up to ", next);
      if (piece.begin > next) refuse(*piece.file, name, "lacks the rows ", next, ":", piece.begin, " before its own");
      next = piece.end;
    }
    if (next != rows_of(tensor.shape))
      refuse(*tensor.pieces.back().file, name, "lacks the rows ", next, ":", rows_of(tensor.shape), " after its own");
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

const LogicalTensor* find(const std::vector<LogicalTensor>& tensors, std::string_view name) {
  const auto at = std::ranges::lower_bound(tensors, name, {}, &LogicalTensor::name);
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

std::vector<std::string> not_finite(const std::vector<LogicalTensor>& tensors) {
  std::vector<std::string> names;
  for (const LogicalTensor& tensor : tensors)
    if (std::ranges::any_of(tensor.pieces, [&](const LogicalTensor::Piece& piece) {
          return !all_finite(tensor.dtype, piece.stored->data);
        }))
      names.push_back(tensor.name);
  return names;
}

}  // namespace ct
