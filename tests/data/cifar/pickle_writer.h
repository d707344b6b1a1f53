// Pickles as Python 2 and numpy wrote those of CIFAR-10's python archive, opcode by opcode.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ct::pickles {

inline std::string little(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(number >> 8 * i));
  return text;
}
/// What was just made gets a number.
inline std::string put(uint32_t n) { return n < 256 ? "q" + little(n, 1) : "r" + little(n, 4); }
inline std::string text(const std::string& value) {
  return value.size() < 256 ? "U" + little(value.size(), 1) + value : "T" + little(value.size(), 4) + value;
}
inline std::string number(int64_t value) {
  if (value >= 0 && value < 256) return "K" + little(static_cast<uint64_t>(value), 1);
  if (value >= 0 && value < 65536) return "M" + little(static_cast<uint64_t>(value), 2);
  return "J" + little(static_cast<uint64_t>(value), 4);
}
/// A list, a thousand items at a time.
inline std::string list(const std::vector<std::string>& items) {
  std::string pickle = "]" + put(4);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i % 1000 == 0) pickle += "(";
    pickle += items[i];
    if (i % 1000 == 999 || i + 1 == items.size()) pickle += "e";
  }
  return pickle;
}
inline std::string dict(const std::vector<std::string>& keys_and_values) {
  std::string pickle = "\x80\x02}" + put(1) + "(";
  for (const std::string& part : keys_and_values) pickle += part;
  return pickle + "u.";
}
/// rows x 3072 bytes.
inline std::string array(size_t rows, const std::string& bytes, bool by_columns = false) {
  return "cnumpy.core.multiarray\n_reconstruct\n" + put(7) + "cnumpy\nndarray\n" + put(8) + "K" + std::string(1, '\0') +
         "\x85" + put(9) +
         "U\x01"
         "b\x87R" +
         put(10) + "(K\x01" + number(static_cast<int64_t>(rows)) + number(3072) + "\x86" + "cnumpy\ndtype\n" + put(11) +
         "U\x02u1" + number(0) + number(1) + "\x87R" + put(12) + "(K\x03U\x01|NNN" + number(-1) + number(-1) +
         number(0) + "tb" + (by_columns ? "\x88" : "\x89") + "T" + little(bytes.size(), 4) + bytes + "tb";
}

struct Batch {
  std::vector<int> labels;
  std::string pixels;  // 3072 of each image
  bool by_columns = false;
};
inline std::string batch(const Batch& b) {
  std::vector<std::string> labels, names;
  for (size_t i = 0; i < b.labels.size(); ++i) {
    labels.push_back(number(b.labels[i]));
    names.push_back(text("picture_s_" + std::to_string(i) + ".png") + put(static_cast<uint32_t>(13 + i)));
  }
  return dict({text("batch_label") + put(2), text("training batch 1 of 5") + put(3), text("labels") + put(4),
               list(labels), text("data") + put(6), array(b.labels.size(), b.pixels, b.by_columns),
               text("filenames") + put(12), list(names)});
}
inline std::string names(const std::vector<std::string>& classes) {
  std::vector<std::string> items;
  for (size_t c = 0; c < classes.size(); ++c) items.push_back(text(classes[c]) + put(static_cast<uint32_t>(5 + c)));
  return dict({text("num_cases_per_batch") + put(2), number(10000), text("label_names") + put(3), list(items),
               text("num_vis") + put(15), number(3072)});
}

}  // namespace ct::pickles
