// The Bootstrap of ranks that share only an endpoint: those of torchrun, `launch` or a job script.
#pragma once

#include "comm/bootstrap.h"
#include "comm/rendezvous/rendezvous.h"

namespace ct {

class TcpBootstrap : public Bootstrap {
 public:
  TcpBootstrap(int rank, int size, const Endpoint& at, const RendezvousOptions& options);
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  /// Throws Error(peer) with the lost rank.
  std::vector<std::string> gather(std::string_view mine) override;

 private:
  int rank_, size_;
  RendezvousOptions options_;
  Star star_;
};

}  // namespace ct
