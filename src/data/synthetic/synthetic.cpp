#include "data/synthetic/synthetic.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/new_folder.h"
#include "base/paths.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/shell_word.h"
#include "data/cifar/cifar_set.h"

namespace ct {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = kCifarShape.height, kPlane = kSide * kSide, kRecord = kRecordBytes;

// Lengths are in 1/16 pixel, angles in 1/64 turn, directions in 1/256.
constexpr std::array<int, 17> kQuarterSine = {0,   25,  50,  74,  98,  121, 142, 162, 181,
                                              198, 213, 226, 237, 245, 251, 255, 256};

constexpr int sine(int angle) {
  const int a = angle & 31;
  const int value = kQuarterSine[a <= 16 ? a : 32 - a];
  return (angle & 32) ? -value : value;
}
constexpr int cosine(int angle) { return sine(angle + 16); }

struct Rgb {
  int c[3];
};

/// A colour of given hue (0..1535, six ramps of 256), lightness (0..255) and chroma (0..128).
Rgb tint(int hue, int light, int chroma) {
  Rgb out{};
  for (int k = 0; k < 3; ++k) {
    const int h = (hue + 1536 - 512 * k) % 1536;                         // distance from this channel's own peak
    const int ramp = std::clamp(std::abs(h - 768) - 256, 0, 256) - 128;  // 128 at the peak, -128 opposite
    out.c[k] = light + ((ramp * chroma) >> 7);
  }
  return out;
}

Rgb mix(const Rgb& a, const Rgb& b, int weight, int shift) {  // a + (b - a) * weight / 2^shift
  Rgb out{};
  for (int k = 0; k < 3; ++k) out.c[k] = a.c[k] + (((b.c[k] - a.c[k]) * weight) >> shift);
  return out;
}

enum Shape { disc, ring, square, triangle, cross };

/// Is (u, v), in the shape's own turned frame, inside a shape of size r? All shapes have about the same area.
bool inside(Shape shape, int u, int v, int r) {
  const int au = std::abs(u), av = std::abs(v);
  switch (shape) {
    case disc:
      return u * u + v * v < r * r;
    case ring: {
      const int d = 256 * (u * u + v * v);
      return d < 345 * r * r && d > 90 * r * r;
    }
    case square:
      return 256 * std::max(au, av) < 227 * r;
    case triangle:  // equilateral, centre of mass at the origin, inradius 0.77 r
      return 256 * v < 198 * r && 222 * au - 128 * v < 198 * r;
    case cross:
      return std::max(au, av) < r + r / 8 && 256 * std::min(au, av) < 100 * r;
  }
  return false;
}

struct Dot {
  int x, y, r2;
  Rgb colour;
};

}  // namespace

int synthetic_label(uint64_t seed, uint32_t index) {
  // Place index % 10 of this ten's own permutation.
  Random order(seed, Purpose::synthetic, index / 10, 1);
  std::array<uint8_t, 10> labels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (uint32_t i = 9; i > 0; --i) std::swap(labels[i], labels[order.below(i + 1)]);
  return labels[index % 10];
}

void synthetic_record(uint64_t seed, uint32_t index, uint8_t record[kRecord]) {
  const int label = synthetic_label(seed, index);
  const Shape shape = static_cast<Shape>(label / 2);
  const bool checked = label % 2;

  Random random(seed, Purpose::synthetic, index);
  const auto between = [&](int low, int high) { return low + static_cast<int>(random.below(high - low + 1)); };

  const int r = between(128, 184);
  const int cx = 256 + between(-64, 64), cy = 256 + between(-64, 64);
  const int angle = between(-8, 8) & 63;
  const int su = cosine(angle), sv = sine(angle);

  // Colours: a class has a favourite hue that an image misses by up to 3/16 of the circle; the lightness
  // differs from the background's in either direction.
  const int hue = (label * 461 + 1536 + between(-288, 288)) % 1536;
  const int ground_light = between(80, 175), sign = between(0, 1) ? 1 : -1;
  const Rgb ground_a = tint(between(0, 1535), ground_light, between(0, 70));
  const Rgb ground_b = tint(between(0, 1535), ground_light + between(-30, 30), between(0, 70));
  const int light = ground_light + sign * between(0, 55);
  const Rgb front = tint(hue, light, between(30, 90));
  const Rgb back =
      tint(hue + between(-100, 100) + 1536, light + (between(0, 1) ? 1 : -1) * between(35, 75), between(10, 60));

  // Texture: bands of half a period across one direction, or the exclusive or of two.
  const int texture_angle = between(-8, 8) & 63, half_period = between(40, 60);
  const int tu = cosine(texture_angle), tv = sine(texture_angle);
  const int phase_u = between(0, 255), phase_v = between(0, 255);

  const int ground_angle = between(0, 63);
  const int gu = cosine(ground_angle), gv = sine(ground_angle);
  std::array<Dot, 6> dots;
  for (Dot& dot : dots) {
    const int radius = between(0, 1) ? between(16, 56) : 0;
    dot = {between(0, 511), between(0, 511), radius * radius, tint(between(0, 1535), between(40, 215), between(0, 90))};
  }
  const int noise = between(10, 60);

  record[0] = static_cast<uint8_t>(label);
  uint8_t* const red = record + 1;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int px = 16 * x + 8, py = 16 * y + 8;
      const int slope = std::clamp(128 + (((px - 256) * gu + (py - 256) * gv) >> 9), 0, 256);
      Rgb colour = mix(ground_a, ground_b, slope, 8);
      for (const Dot& dot : dots) {
        const int dx = px - dot.x, dy = py - dot.y;
        if (dx * dx + dy * dy < dot.r2) colour = dot.colour;
      }
      int covered = 0, second = 0;  // of four points of the pixel: in the shape; of those, in the second colour
      for (int sample = 0; sample < 4; ++sample) {
        const int dx = px - cx + (sample & 1 ? 4 : -4), dy = py - cy + (sample & 2 ? 4 : -4);
        if (!inside(shape, (dx * su + dy * sv) >> 8, (dy * su - dx * sv) >> 8, r)) continue;
        ++covered;
        const int a = (((dx * tu + dy * tv) >> 8) + 4096 + phase_u) / half_period;
        const int b = (((dy * tu - dx * tv) >> 8) + 4096 + phase_v) / half_period;
        second += (checked ? a ^ b : a) & 1;
      }
      if (covered > 0) {
        colour = mix(colour, front, covered, 2);
        colour = mix(colour, back, second, 2);
      }
      const uint32_t bits = random.next_u32();
      for (int k = 0; k < 3; ++k) {
        const int jitter =
            ((static_cast<int>(bits >> (8 * k) & 255) + static_cast<int>(bits >> 24) - 255) * noise) >> 8;
        red[k * kPlane + y * kSide + x] = static_cast<uint8_t>(std::clamp(colour.c[k] + jitter, 0, 255));
      }
    }
  }
}

std::vector<uint8_t> synthetic_records(uint64_t seed, uint32_t first, uint32_t count, int threads) {
  std::vector<uint8_t> records(size_t{count} * kRecord);
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto work = [&](uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) synthetic_record(seed, first + i, records.data() + size_t{i} * kRecord);
  };
  std::vector<std::jthread> pool;
  for (int t = 0; t < threads; ++t) {
    const auto part = [&](int i) { return static_cast<uint32_t>(uint64_t{count} * i / threads); };
    if (t + 1 < threads) {
      pool.emplace_back(work, part(t), part(t + 1));
    } else {
      work(part(t), part(t + 1));
    }
  }
  return records;
}

const std::array<std::string_view, 6> kSyntheticSha256 = {
    "6679ccc4ce360f086e2426bad04bd4ce5a6c605a4a10d90b1488824a8caa553d",
    "7e8b4e4ffce03b60a8292194d9f3635cdaf9e179ca5a061f7b3f7493de3551e0",
    "a486f87206ef5a7e8cda848ca9f3ff2cdc04f920ff1a09d5d557f517cb8ac812",
    "49d50abd1287aca9fbca3e7f2dfa15ee9c270caf3149d5f299783e4622d16b8e",
    "563e06d231b6170c9ab3672c3b884496aaf662d8288508f1c20fe53f9ba0b2e2",
    "1d9990632ed8be5f465c33028d56a44854526b58931739cde5fdd5b503c5e96a"};

namespace {

/// The first file that is missing or of another length, and how; empty: the set is there.
std::string first_problem(const fs::path& folder) {
  const int64_t records = is_folder(folder, ExitCode::data) ? records_per_file(folder) : kRecordsPerFile;
  for (const std::string& name : all_batch_files()) {
    const fs::path path = folder / name;
    if (const PathKind kind = kind_of(path, ExitCode::data); kind != PathKind::file)
      return str(path.string(), kind == PathKind::nothing ? ": no such file" : ": not a file");
    std::error_code error;
    const uint64_t bytes = fs::file_size(path, error);
    if (error) fail_io("look at", path, error.value(), ExitCode::data);
    const std::string problem = size_problem(bytes, records);
    if (!problem.empty()) return str(path.string(), ": ", problem);
  }
  return "";
}

/// The records of one of the set's files: small sets are the beginning of the whole one, as to training and to test.
std::vector<uint8_t> file_records(size_t file, int64_t count) {
  const bool test = file == batch_files(Split::train).size();
  const int64_t first = test ? int64_t{kSyntheticTrain} : static_cast<int64_t>(file) * count;
  return synthetic_records(kSyntheticSeed, static_cast<uint32_t>(first), static_cast<uint32_t>(count));
}

void write_files(FileSystem& files, const fs::path& folder, const std::function<void()>& progress,
                 int64_t records_per_file) {
  size_t file = 0;
  for (const std::string& name : all_batch_files()) {
    if (progress) progress();
    const std::vector<uint8_t> records = file_records(file++, records_per_file);
    write_new_file(files, folder / name, std::as_bytes(std::span(records)));
  }
  std::string list;
  for (std::string_view name : kSyntheticClasses) list += str(name, "\n");
  write_new_file(files, folder / "batches.meta.txt", std::as_bytes(std::span(list)));
}

}  // namespace

bool synthetic_there(const fs::path& folder) {
  if (first_problem(folder).empty()) return true;
  const PathKind kind = kind_of(folder, ExitCode::data);
  if (kind == PathKind::nothing || (kind == PathKind::folder && list_folder(folder).empty())) return false;
  const std::string problem = first_problem(folder);  // another process may just have finished
  if (problem.empty()) return true;
  const auto images = static_cast<int64_t>(batch_files(Split::train).size()) * records_per_file(folder);
  const fs::path place = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  fail(ExitCode::data, problem, "; ", folder.string(),
       " is not a complete synthetic set: delete it, and write it again with: cifar-train data synth --out ",
       shell_word(place.string()), images > 0 && images < kSyntheticTrain ? str(" --images ", images) : "");
}

std::string synthetic_sha256(size_t file, int64_t records_per_file) {
  if (records_per_file == kRecordsPerFile) return std::string(kSyntheticSha256[file]);
  const std::vector<uint8_t> records = file_records(file, records_per_file);
  return sha256_hex(records.data(), records.size());
}

bool write_synthetic(const fs::path& path, const std::function<void()>& progress, int64_t records_per_file) {
  const fs::path folder = path.has_filename() ? path : path.parent_path();  // "data/x/" is "data/x"
  if (synthetic_there(folder)) return false;
  FileSystem files;
  const auto fill = [&](const fs::path& temporary) { write_files(files, temporary, progress, records_per_file); };
  if (make_filled_folder(files, folder, fill)) return true;
  // Another process was faster: its files are the same.
  if (!first_problem(folder).empty()) fail_io("create the folder", folder, EEXIST);
  return false;
}

}  // namespace ct
