// Shell commands, and what they said.
#pragma once

#include <stdio.h>
#include <sys/wait.h>

#include <array>
#include <string>

namespace ct {

struct Ended {
  int code;
  std::string output;  // stdout and stderr
  int count(const std::string& what) const {
    int n = 0;
    for (size_t at = 0; (at = output.find(what, at)) != std::string::npos; at += what.size()) ++n;
    return n;
  }
};

inline Ended run(const std::string& command) {
  Ended ended{-1, ""};
  FILE* pipe = popen(("{ " + command + "\n} 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) ended.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

}  // namespace ct
