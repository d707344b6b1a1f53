// Handles faults of standard input, output and error: they may be closed, on a full disk, or connected to a reader that
// ends. Failed writes to standard output are recorded with their reason.
#pragma once

namespace ct {

/// Must be called first in main(), before any file is opened. Opens closed streams on /dev/null, because otherwise the
/// next file would get the stream's number and all output. They are opened for reading only, so that writes fail and
/// are noticed.
void open_missing_streams();

/// Starts the recording of errors of `stdout` for output_error(). From now on a terminal there gets no control
/// characters but line breaks and tabs: others are escaped, whoever prints them.
void watch_output();

/// errno of the first write to standard output that failed; 0: none so far.
int output_error();

/// Makes a job independent of its output: from now on a reader that ends raises no SIGPIPE, and failed output is
/// dropped with one message on standard error. For a reader that stalls the job waits 2 seconds, and then drops output
/// until the reader goes on; a message on standard error says how much.
void outlive_readers();

}  // namespace ct
