// The peer of `cifar-train bench reduce`: MPI_Allreduce of as many floats, median of 41.
//   mpicxx -O3 tests/bench/peer_mpi_allreduce.cpp -o peer_mpi_allreduce && mpirun -np 2 ./peer_mpi_allreduce [ELEMENTS]
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int n = argc > 1 ? std::atoi(argv[1]) : 11'175'000;
  std::vector<float> data(static_cast<size_t>(n), 0.0f);
  std::vector<double> times;
  for (int i = 0; i < 44; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, data.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (i >= 3) times.push_back(MPI_Wtime() - begin);
  }
  std::sort(times.begin(), times.end());
  if (rank == 0)
    std::printf("MPI_Allreduce of %.1f MB over %d ranks: %.2f ms (%.2f - %.2f)\n", n * 4e-6, size,
                1e3 * times[times.size() / 2], 1e3 * times.front(), 1e3 * times.back());
  MPI_Finalize();
}
