// The figures of a report, from the records of one run or of several.
#pragma once

#include <span>

#include "cli/report/chart.h"
#include "cli/report/run_parts.h"

namespace ct::report {

/// Loss, accuracy, and the learning rate beneath. Of one run every kind of loss has its curve; of several, each run has
/// one in every panel, whose name is its number, from 1.
Figure progress_figure(std::span<const RunParts> runs);
/// The norm of gradients, images a second, and the share of time that training waited for data.
Figure pace_figure(std::span<const RunParts> runs);

/// Do the runs have any number to draw?
bool has_curves(const Figure& figure);

/// What a figure of one run shows, in words: where its curves begin and end, and the best evaluation.
std::string progress_in_words(const RunRecords& records);

}  // namespace ct::report
