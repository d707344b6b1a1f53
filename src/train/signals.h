// Requests to stop. Job schedulers send USR1, USR2 or XCPU before a limit, often twice, and TERM; users press ^C or
// close their terminal (HUP). Each has the same effect: finish the step (an evaluation is aborted and repeated later),
// save, exit. A second TERM or INT ends the process at once. INT and HUP stay ignored if the parent ignores them.
#pragma once

namespace ct {

struct StopSignals {
  /// Installs the handlers for the lifetime of this process, as early as possible in main(); a second warning must not
  /// kill a process that is about to exit. Clears earlier requests.
  static void install();
  /// The first signal received; 0: none yet.
  static int requested();
  /// Has a TERM or INT been received?
  static bool terminated();
  /// Restores the handlers, which a library may have replaced. Does nothing without install().
  static void install_again();
  /// Makes the process ignore TERM and INT, for processes that are about to exit.
  static void ignore_terminations();
};

}  // namespace ct
