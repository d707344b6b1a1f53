// Requests to stop. Job schedulers send USR1, USR2 or XCPU before a limit, often twice, and TERM; people press ^C or
// close their terminal (HUP). Each asks for the same: finish the step (an evaluation is left and comes
// again), save, exit. A second TERM or INT ends the process at once. INT and HUP stay ignored where the parent has
// them ignored.
#pragma once

namespace ct {

struct StopSignals {
  /// Installs the handlers for this process, as early as main() can, until its end: a second warning must not kill what
  /// is about to exit. Forgets earlier requests.
  static void install();
  /// The signal that asked first; 0: none yet.
  static int requested();
  /// Has a TERM or INT come?
  static bool terminated();
  /// A library may have put its own handlers in place of these. Nothing without install().
  static void install_again();
  /// Makes TERM and INT change nothing any more, for those who are about to exit anyway.
  static void ignore_terminations();
};

}  // namespace ct
