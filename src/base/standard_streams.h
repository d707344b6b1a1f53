// Standard input, output and error belong to whoever starts the program: they may be closed, lead to a full disk, or to
// a reader that leaves. Standard output is watched, so that a failed write is known with its reason.
#pragma once

namespace ct {

/// First thing in main(), before anything opens a file. A closed stream is opened on /dev/null, or the next file would
/// get its number and with it all that is printed. For reading only: writing to it fails and is noticed.
void open_missing_streams();

/// Makes output_error() tell of `stdout` from now on.
void watch_output();

/// errno of the first write to standard output that failed; 0: none so far.
int output_error();

/// Protects a job that is worth more than what it prints: from now on a reader that leaves is no signal (SIGPIPE), and
/// what standard output does not take is dropped, which one line on standard error says.
void outlive_readers();

}  // namespace ct
