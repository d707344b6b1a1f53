// The paths of programs that this one starts or reports.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ct {

/// The path in a bundle: in bin/, next to the folder of the program that bin/ starts.
std::optional<std::filesystem::path> in_bundle(const std::string& program);

/// The first executable of that name in the folders of PATH.
std::optional<std::filesystem::path> on_path(const std::string& program);

/// Does the environment allow Open MPI's mpirun to run as root?
bool root_may_run_mpirun();

/// The path of this program for other hosts: in a bundle the one in bin/.
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

/// In a child after fork(): it ignores ^C, which the parent forwards once, and ends when the parent ends.
void belong_to(pid_t parent);

}  // namespace ct
