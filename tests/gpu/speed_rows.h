// SPDX-License-Identifier: Apache-2.0
// The rows of the table of speeds.
#pragma once

#include <mezzo/runtime/cuda_context.h>

#include <gpu/figures.h>
#include <gpu/report.h>
#include <memory>
#include <string>

namespace mezzo::gpu {

struct SpeedRun {
  const Options& options;
  Report& report;
  std::shared_ptr<runtime::CudaContext> context;
  const CardFigures& card;
  double copy_gbytes = 0;  // as measured here
  double seconds = 0;      // spent on a row
};

struct SpeedRow {
  std::string name;
  double seconds = 0;  // the median
  double value = 0;
  std::string unit;
  double reference = 0;  // what the value is a share of; 0: nothing known
  std::string of = {};   // what that is
  std::string goal = {};
};

/// Prints a row and puts it into the result file.
void add_row(SpeedRun& run, const SpeedRow& row);

void measure_training(SpeedRun& run);

}  // namespace mezzo::gpu
