#include "base/in_flight.h"

#include <new>
#include <string>
#include <system_error>

namespace ct {

Error error_in_flight() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ExitCode::memory, str("out of memory on this host: ", kUseLess,
                                  ", end other programs or raise the limit of memory (ulimit -v, -d)")};
  } catch (const std::system_error& error) {
    const bool thread = error.code() == std::errc::resource_unavailable_try_again;
    if (thread || error.code() == std::errc::not_enough_memory)
      return {ExitCode::memory, str("cannot start a thread: ", error.code().message(),
                                    ": use fewer ranks, or raise the limits of processes (ulimit -u) and of memory "
                                    "(ulimit -v)")};
    return {ExitCode::bug, str("internal error: ", error.what())};
  } catch (const std::exception& error) {
    return {ExitCode::bug, str("internal error: ", error.what())};
  } catch (...) {
    return {ExitCode::bug, "internal error: an exception of an unknown kind"};
  }
}

}  // namespace ct
