#include "checkpoint/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/sealed_json.h"
#include "checkpoint/torch/archive.h"

namespace ct {
namespace {

using Json = nlohmann::json;

/// Bytes. Those of resnet152 have 0.2 million, and what is read of one takes up to 45 times as many in memory.
constexpr uint64_t kLongestHeader = 1'000'000;
constexpr std::string_view kHeaderOpening = R"({"__metadata__":{"header_crc32c":")";
constexpr std::string_view kSealKey = "header_crc32c", kFormatKey = "crc32c_format", kTensorKey = "crc32c.";

bool is_checksum_key(std::string_view key) { return key.starts_with("crc32c") || key.starts_with(kSealKey); }

uint32_t crc_of_size(uint64_t size) { return crc32c(std::as_bytes(std::span(&size, 1))); }

template <class... Parts>
[[noreturn]] void refuse(const Path& path, const Parts&... parts) {
  fail(ExitCode::checkpoint, in_quotes(path.native()), ": ", parts...);
}

constexpr std::string_view kDamaged = ": the file is damaged or not safetensors, use another copy of it";

/// The header's entry of one tensor and where its elements lie.
StoredTensor parse_tensor(const Path& path, const std::string& name, const Json& entry,
                          std::span<const std::byte> payload) {
  const std::string whose = "tensor " + in_quotes(name);
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
    refuse(path, whose, " is not described by dtype, shape and data_offsets", kDamaged);
  }
  StoredTensor tensor;
  tensor.name = name;
  const auto& type = entry["dtype"].get_ref<const std::string&>();
  const auto known = stored_type(type);
  if (!known) refuse(path, whose, " has the dtype ", in_quotes(type), "; known are F32 F64 F16 BF16 U8 I32 I64");
  tensor.dtype = *known;
  for (const Json& d : entry["shape"]) {
    if (!d.is_number_unsigned() || d.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      refuse(path, whose, " has an invalid dimension", kDamaged);
    }
    tensor.shape.push_back(d.get<int64_t>());
  }
  const Json &first = entry["data_offsets"][0], &last = entry["data_offsets"][1];
  if (!first.is_number_unsigned() || !last.is_number_unsigned()) {
    refuse(path, whose, " has invalid data_offsets", kDamaged);
  }
  const auto begin = first.get<uint64_t>(), end = last.get<uint64_t>();
  if (begin > end || end > payload.size()) {
    refuse(path, whose, " is at bytes ", begin, " to ", end, " of ", payload.size(),
           ": the file is truncated or damaged, use another copy of it");
  }
  const auto bytes = bytes_of(tensor.dtype, tensor.shape);
  if (!bytes || *bytes != end - begin) {
    refuse(path, whose, " has ", end - begin, " bytes, which is not its shape and dtype", kDamaged);
  }
  tensor.data = payload.subspan(begin, end - begin);
  return tensor;
}

/// The tensors must fill the payload without holes, overlaps or a rest.
void check_layout(const Path& path, const std::vector<StoredTensor>& tensors, std::span<const std::byte> payload) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& t : tensors) order.push_back(&t);
  std::ranges::sort(order, {}, [](const StoredTensor* t) { return std::pair(t->data.data(), t->data.size()); });
  const std::byte* next = payload.data();
  for (const StoredTensor* t : order) {
    if (t->data.data() != next) {
      refuse(path, "tensor ", in_quotes(t->name), " leaves a hole or overlaps another", kDamaged);
    }
    next += t->data.size();
  }
  if (next != payload.data() + payload.size()) {
    refuse(path, payload.data() + payload.size() - next, " bytes follow the last tensor", kDamaged);
  }
}

}  // namespace

// ---- writing

SafetensorsPlan::SafetensorsPlan(std::vector<TensorSpec> tensors, Metadata metadata)
    : tensors_(std::move(tensors)), metadata_(std::move(metadata)), offsets_(tensors_.size()) {
  for (const auto& [key, value] : metadata_) check(!is_checksum_key(key), "metadata key ", key, " is reserved");
  order_.resize(tensors_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::sort(order_, {}, [&](size_t i) -> const std::string& { return tensors_[i].name; });
  std::set<std::string_view> names;
  for (const size_t i : order_) {
    const TensorSpec& t = tensors_[i];
    const auto bytes = bytes_of(t.dtype, t.shape);
    check(bytes.has_value(), "tensor ", t.name, " has an impossible shape");
    check(t.name != "__metadata__" && names.insert(t.name).second, "tensor name ", in_quotes(t.name),
          " cannot be used");
    offsets_[i] = payload_bytes_;
    payload_bytes_ += *bytes;
  }
  header_bytes_ = header(std::vector<uint32_t>(tensors_.size())).size();
}

std::string SafetensorsPlan::header(std::span<const uint32_t> crcs) const {
  Json notes = Json::object(), entries = Json::object();
  for (const auto& [key, value] : metadata_) notes[key] = value;
  notes[std::string(kFormatKey)] = "1";
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& t = tensors_[i];
    notes[std::string(kTensorKey) + t.name] = crc_text(crcs[i]);
    entries[t.name] = {{"dtype", name_of(t.dtype)},
                       {"shape", t.shape},
                       {"data_offsets", {offsets_[i], offsets_[i] + *bytes_of(t.dtype, t.shape)}}};
  }
  // The seal must be the first key, so the two objects are joined as text: opening, digits, rest.
  std::string rest = "\"," + notes.dump().substr(1);
  if (!tensors_.empty())
    rest += "," + entries.dump().substr(1);
  else
    rest += "}";
  constexpr size_t kDigits = 8;
  rest.append((8 - (kHeaderOpening.size() + kDigits + rest.size()) % 8) % 8, ' ');
  const uint64_t size = kHeaderOpening.size() + kDigits + rest.size();
  if (size > kLongestHeader)
    fail(ExitCode::data, "a weights file would have a header of ", size, " bytes, more than the ", kLongestHeader,
         " that are read of one: give the classes shorter names");
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + seal(kHeaderOpening, rest, crc_of_size(size));
}

uint32_t SafetensorsPlan::crc(std::span<const uint32_t> crcs) const {
  uint32_t crc = crc32c(header(crcs));
  for (const size_t i : order_) crc = crc32c_combine(crc, crcs[i], *bytes_of(tensors_[i].dtype, tensors_[i].shape));
  return crc;
}

void write_safetensors(FileSystem& files, const Path& path, std::vector<TensorView> tensors, const Metadata& metadata,
                       const std::function<void()>& before_rename) {
  std::ranges::sort(tensors, {}, &TensorView::name);
  std::vector<TensorSpec> specs;
  std::vector<uint32_t> crcs;
  for (const TensorView& t : tensors) {
    check(bytes_of(t.dtype, t.shape) == t.data.size(), "tensor ", t.name, " has ", t.data.size(),
          " bytes, not those of ", describe(t));
    specs.push_back({t.name, t.dtype, t.shape});
    crcs.push_back(crc32c(t.data));
  }
  const SafetensorsPlan plan(std::move(specs), metadata);
  write_file_atomic(files, path, [&](File& file) {
    file.write(plan.header(crcs));
    for (const TensorView& t : tensors) file.write(t.data);
    if (before_rename) before_rename();
  });
}

// ---- reading

SafetensorsFile::SafetensorsFile(const Path& path, Check check, MappedFile::Links links)
    : path_(path), file_([&] {
        if (kind_of_entry(path, ExitCode::checkpoint) == PathKind::nothing) {
          refuse(path, "there is no such file: check the path");
        }
        return MappedFile(path, links);
      }()) {
  try {
    parse(check);
  } catch (const Error&) {
    file_.require_whole(ExitCode::io);  // what is wrong with zeros is the disk
    throw;
  }
}

void SafetensorsFile::parse(Check check) {
  const auto all = file_.bytes();
  if (is_torch_archive(all)) {
    for (TensorView& tensor : tensors_of_torch_archive(all, path_, copies_))
      tensors_.push_back({std::move(tensor), std::nullopt});
    return;
  }
  uint64_t size = 0;
  const auto not_safetensors = [&](const auto&... why) {
    if (const std::string format = foreign_format(all, path_); !format.empty()) refuse(path_, "it is ", format);
    refuse(path_, why..., kDamaged);
  };
  if (all.size() < sizeof size) not_safetensors("it has only ", all.size(), " bytes");
  std::memcpy(&size, all.data(), sizeof size);
  if (size > all.size() - sizeof size) {
    not_safetensors("its header would have ", size, " bytes in a file of ", all.size());
  }
  const std::string_view header(reinterpret_cast<const char*>(all.data() + sizeof size), size);
  if (!header.starts_with('{')) not_safetensors("its header does not begin with '{'");
  if (size > kLongestHeader)
    refuse(path_, "its header has ", size, " bytes, more than the ", kLongestHeader,
           " that are read: use another file");
  checksums_ = is_sealed(header, kHeaderOpening, crc_of_size(size));
  const Json json = parse_strict_json(header, in_quotes(path_.native()) + ": its header");

  if (json.contains("__metadata__")) {
    const Json& notes = json["__metadata__"];
    if (!notes.is_object()) refuse(path_, "its __metadata__ is not an object", kDamaged);
    for (const auto& [key, value] : notes.items()) {
      if (!value.is_string()) refuse(path_, "its __metadata__ entry ", in_quotes(key), " is not text", kDamaged);
      if (is_checksum_key(key)) {
        // Keys of ours without a seal that holds: the header is not what was written.
        if (!checksums_) refuse(path_, "its header has a wrong checksum", kDamaged);
      } else {
        metadata_[key] = value.get<std::string>();
      }
    }
  }
  const auto payload = all.subspan(sizeof size + size);
  for (const auto& [name, entry] : json.items()) {  // sorted bytewise by name
    if (name == "__metadata__") continue;
    tensors_.push_back(parse_tensor(path_, name, entry, payload));
    if (!checksums_) continue;
    const Json& notes = json["__metadata__"];
    const auto it = notes.find(std::string(kTensorKey) + name);
    if (it != notes.end()) tensors_.back().crc = parse_crc(it->get_ref<const std::string&>());
    if (!tensors_.back().crc) refuse(path_, "tensor ", in_quotes(name), " lacks its checksum", kDamaged);
  }
  check_layout(path_, tensors_, payload);
  if (check == Check::header) return;
  const auto damaged = damaged_tensors();
  if (!damaged.empty()) fail(ExitCode::checkpoint, damaged.front(), ": use another copy of the file");
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto it = std::ranges::lower_bound(tensors_, name, {}, &StoredTensor::name);
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

std::vector<std::string> SafetensorsFile::damaged_tensors() const {
  std::vector<std::string> lines;
  for (const StoredTensor& t : tensors_) {
    if (t.crc && crc32c(t.data) != *t.crc) {
      lines.push_back(str(in_quotes(path_.native()), ": tensor ", in_quotes(t.name), " has a wrong checksum"));
    }
    let_go(t.data);
  }
  require_unchanged();
  return lines;
}

void SafetensorsFile::let_go(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto whole = bytes();
  const auto has = [&](std::span<const std::byte> block) {
    return part.data() >= block.data() && part.data() + part.size() <= block.data() + block.size();
  };
  if (std::ranges::any_of(copies_, has)) return;
  check(has(whole), "memory is let go that is not the file's");
  // Whole pages, those that it shares with its neighbours too.
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)),
               into = static_cast<size_t>(part.data() - whole.data());
  const size_t begin = into / page * page;
  madvise(const_cast<std::byte*>(whole.data()) + begin, into + part.size() - begin, MADV_DONTNEED);
}

}  // namespace ct
