// Muon. Each rank updates the momentum that it owns; the owner of a matrix, who is one rank, gets all of its direction,
// orthogonalises it, and shares the result out again. Directions lie where gradients do: gradients are done with.
//
// Where ranks hold whole gradients, all matrices travel together, in place. Where they own a part of them, a bucket at
// a time does, in a buffer of its own.
#include <algorithm>
#include <numeric>

#include "plan/lowering/lowering.h"

namespace ct {

void Lowering::update_by_muon(const optim::Muon& muon) {
  const States momenta = add_states({"momentum_buffer"}, Scope::matrices),
               moments = add_states(optim::states_of(muon.adamw().rule()), Scope::others);
  const int after = add_directions(muon, momenta);
  update_slices([&](const std::vector<Slice>& learnt) {
    Update of_matrices{.scalars = out_.scalars}, of_others{.scalars = out_.scalars};
    for (const Slice& s : learnt) {
      if (is_matrix(graph_.parameters()[static_cast<size_t>(s.rule.tensor)])) {
        of_matrices.slices.push_back(update_slice(s, {}));
      } else {
        UpdateSlice& slice = of_others.slices.emplace_back(update_slice(s, moments));
        slice.lr_scale = static_cast<float>(slice.lr_scale * muon.adamw_share());
      }
    }
    if (!of_matrices.slices.empty()) emit(out_.update, optim::update_by(muon.rule(), std::move(of_matrices)), after);
    if (!of_others.slices.empty())
      emit(out_.update, optim::update_by(muon.adamw().rule(), std::move(of_others)), after);
  });
}

int Lowering::add_directions(const optim::Muon& muon, const States& momenta) {
  const Distribution& d = out_.distribution;
  std::vector<MuonMomentum::Slice> own;
  for (const Part& part : own_parts()) {
    if (!is_matrix(graph_.parameters()[static_cast<size_t>(part.rule.tensor)])) continue;
    const HeldState& momentum = *momenta.front();
    own.push_back({view(out_.grads, grad_byte(part.range.begin), part.range.size()),
                   view(momentum.value, byte_of(momentum.held, part.range.begin), part.range.size())});
  }
  if (!own.empty()) emit(out_.update, muon.directions(std::move(own), out_.scalars));

  std::vector<Matrix> all = matrices_in({0, out_.flat.changing});
  if (all.empty()) return -1;
  add_muon_scratch(all);
  if (zero_.whole_grads) {
    for (Matrix& m : all) m.byte = m.storage.begin * kFloat;
    assign_owners(all);
    return orthogonalize(muon, out_.grads, all, /*after=*/-1);
  }

  // Bucket by bucket.
  std::vector<std::vector<Matrix>> buckets;
  int64_t most = 0;
  const BucketSize size = bucket_size(out_.flat, d.zero.allgather_bucket_size);
  for (const Range& units : unit_groups(out_.flat, size, /*backward=*/false)) {
    std::vector<Matrix> matrices = matrices_in(units_range(units));
    int64_t bytes = 0;
    for (Matrix& m : matrices) {
      m.byte = bytes;
      bytes = round_up(bytes + m.storage.size() * kFloat, 64);
    }
    most = std::max(most, bytes);
    assign_owners(matrices);
    if (!matrices.empty()) buckets.push_back(std::move(matrices));
  }
  const ValueId whole = floats("directions", most / kFloat, MemoryCategory::gradients, shared());
  int after = -1;
  for (const std::vector<Matrix>& matrices : buckets) {
    after = orthogonalize(muon, whole, matrices, after);
    for (const Matrix& m : matrices)
      for (const Range& mine : out_.shards.owned(d.rank, m.storage))
        emit(out_.update,
             Cast{view(whole, m.byte + (mine.begin - m.storage.begin) * kFloat, mine.size()),
                  view(out_.grads, grad_byte(mine.begin), mine.size())},
             after);
  }
  return after;
}

/// All matrices of a range, in the flat order.
std::vector<Lowering::Matrix> Lowering::matrices_in(const Range& range) const {
  std::vector<Matrix> matrices;
  for (const size_t i : by_place()) {
    const Parameter& p = graph_.parameters()[i];
    const Range& storage = out_.flat.parameters[i];
    if (!is_matrix(p) || storage.begin < range.begin || storage.begin >= range.end) continue;
    matrices.push_back({.storage = storage,
                        .rows = p.shape[0],
                        .columns = p.layout.numel() / p.shape[0],
                        .stride = p.layout.strides[0]});
  }
  return matrices;
}

/// The dearest first, each to the rank that has least to do.
void Lowering::assign_owners(std::vector<Matrix>& matrices) const {
  const auto cost = [&](size_t i) {
    const auto rows = static_cast<double>(matrices[i].rows), columns = static_cast<double>(matrices[i].columns);
    const double n = std::min(rows, columns);
    return n * n * (2 * std::max(rows, columns) + n);
  };
  std::vector<size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return cost(a) > cost(b); });
  std::vector<double> load(static_cast<size_t>(out_.distribution.ranks), 0);
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(load);
    matrices[i].owner = static_cast<int>(least - load.begin());
    *least += cost(i);
  }
}

/// Rows that ranks own, or all, become the orthogonalised matrices in `whole`, on all ranks. Returns the number of the
/// last communication.
int Lowering::orthogonalize(const optim::Muon& muon, ValueId whole, const std::vector<Matrix>& matrices, int after) {
  const Distribution& d = out_.distribution;
  std::vector<Run> place;
  std::vector<int> owners;
  for (const Matrix& m : matrices) {
    place.push_back({m.storage, DType::f32, m.byte});
    owners.push_back(m.owner);
  }
  if (!zero_.whole_states) {
    communicate(out_.update, AllGather{whole, out_.grads, place, AllGather::What::grads});
    after = queue_ - 1;
  }
  for (const Matrix& m : matrices) {
    if (m.owner != d.rank) continue;
    const int64_t n = std::min(m.rows, m.columns);
    const auto shaped = [&](ValueId scratch, Shape shape) {
      const ValueId id = view(scratch, 0, shape.stored());
      out_.values[static_cast<size_t>(id)].shape = shape;
      return id;
    };
    Orthogonalize op{};
    op.x = view(whole, m.byte, m.storage.size());
    op.left = shaped(muon_scratch_.left, {m.rows, m.columns});
    op.product = shaped(muon_scratch_.product, {m.rows, m.columns});
    op.gram = shaped(muon_scratch_.gram, {n, n});
    op.polynomial = shaped(muon_scratch_.polynomial, {n, n});
    op.stride = m.stride;
    op.between = graph_.compute() == DType::f32 ? DType::f32 : DType::bf16;
    emit(out_.update, muon.orthogonalize(op, m.rows, m.columns), after);
  }
  if (d.ranks == 1) return after;
  communicate(out_.update, AllGather{whole, whole, std::move(place), AllGather::What::grads, std::move(owners)});
  return queue_ - 1;
}

/// Room for the largest.
void Lowering::add_muon_scratch(const std::vector<Matrix>& matrices) {
  int64_t matrix = 0, square = 0;
  for (const Matrix& m : matrices) {
    const int64_t n = std::min(m.rows, m.columns);
    matrix = std::max(matrix, Shape{m.rows, m.columns}.stored());
    square = std::max(square, Shape{n, n}.stored());
  }
  muon_scratch_ = {.left = floats("scratch of Muon, left", matrix, MemoryCategory::other),
                   .product = floats("scratch of Muon, product", matrix, MemoryCategory::other),
                   .gram = floats("scratch of Muon, gram", square, MemoryCategory::other),
                   .polynomial = floats("scratch of Muon, polynomial", square, MemoryCategory::other)};
}

}  // namespace ct
