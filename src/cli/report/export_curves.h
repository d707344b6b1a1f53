// The curves of runs for other programs: a table of all records, and the chart as a picture.
#pragma once

#include <span>
#include <string>

#include "cli/report/run_parts.h"

namespace ct::report {

/// The first line of the table. A row is a record of a step, of an epoch's mean or of an evaluation; a number that is
/// not finite is an empty field.
inline constexpr std::string_view kCurveHeader =
    "run,event,step,epoch,split,images,loss,accuracy,top5,lr,grad_norm,samples_per_sec,wait_fraction";
std::string curve_table(std::span<const RunParts> runs);

/// How the file of a chart begins.
inline constexpr std::string_view kChartBeginning =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- cifar-train report -->\n";
/// Loss, accuracy and learning rate, 960 px wide.
std::string chart_file(std::span<const RunParts> runs);

}  // namespace ct::report
