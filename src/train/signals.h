// Requests to stop. Job schedulers send USR1, USR2 or XCPU before a limit, and TERM; people press ^C or close their
// terminal (HUP). Each asks for the same: finish the step, save, exit. A second TERM or INT ends the process at once.
#pragma once

namespace ct {

/// Installs the handlers for this process; earlier ones return with the object.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that asked first; 0: none yet.
  static int requested();
};

}  // namespace ct
