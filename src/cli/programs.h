// Where programs lie that this one starts, or tells of.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ct {

/// Where a bundle has it: in bin/, beside the folder of the program that bin/ starts.
std::optional<std::filesystem::path> in_bundle(const std::string& program);

/// The first executable of that name in the folders of PATH.
std::optional<std::filesystem::path> on_path(const std::string& program);

/// This program, as other hosts start it: in a bundle, what its bin/ has.
std::filesystem::path own_program();

/// Words of a program, or variables of its environment, as exec takes them.
class ExecWords {
 public:
  explicit ExecWords(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  ExecWords(const ExecWords&) = delete;
  ExecWords& operator=(const ExecWords&) = delete;
  char* const* data() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

/// In a child that was just forked: ^C is for the parent, which passes it on itself, once, and dies with its children.
void belong_to(pid_t parent);

/// A word so that a shell reads it as one: plain as it is, else in single quotes.
std::string shell_word(const std::string& word);

}  // namespace ct
