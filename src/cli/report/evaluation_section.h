// The part of a page about a run's last evaluation: classes, confusions, calibration, and pictures.
#pragma once

#include "cli/report/markup.h"
#include "cli/report/run_parts.h"

namespace ct::report {

/// Is there anything to show?
bool has_evaluation(const RunParts& run);
/// `number` tells the ids of several runs in a page apart.
void write_evaluation_of(Markup& out, const RunParts& run, size_t number);

/// The reliability diagram: of each bin of answers how many were right, by their mean probability; and beneath, how
/// many answers it has.
void draw_reliability(Markup& out, const std::vector<FinalEvaluation::Bin>& bins, size_t number);

/// The style sheet of this part.
extern const char* const kEvaluationStyle;

}  // namespace ct::report
