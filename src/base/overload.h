#pragma once

namespace ct {

/// std::visit(Overload{[](A) {...}, [](B) {...}}, variant): one function of several, chosen by type.
template <class... Types>
struct Overload : Types... {
  using Types::operator()...;
};
template <class... Types>
Overload(Types...) -> Overload<Types...>;

}  // namespace ct
