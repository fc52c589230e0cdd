// SPDX-License-Identifier: Apache-2.0
// Epochs and evaluations: batches of a data set, one after the other, and means over them.
#include <mezzo/dsl/trainer_state.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/progress.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

namespace mezzo::detail {

namespace {

int64_t samples_of(const ir::Type& type) { return type.rank() ? type.shape[0] : 1; }

/// How much a batch counts in means over batches.
struct Weight {
  double loss = 0;                 // of its mean loss
  double labels = 0, counted = 0;  // all, and those that are not ignored
};

/// The weight of a batch that has been run.
Weight weigh(const TrainingModule& traced, const TrainerState::Batch& batch) {
  const ir::Type& type = batch.targets.type;
  const LabelCounts& counts = traced.counts;
  const int64_t samples = batch.samples;
  auto share_of = [&](int64_t all) {
    return static_cast<double>(all) * static_cast<double>(samples) /
           static_cast<double>(std::max<int64_t>(1, samples_of(type)));
  };
  auto without = [&](int64_t ignored) {
    int64_t targets = std::llround(share_of(type.elements())), counted = 0;
    for (int64_t i = 0; i < targets; ++i) counted += batch.targets.as_integer(i) != ignored;
    return static_cast<double>(counted);
  };
  Weight weight;
  weight.loss = static_cast<double>(samples);
  weight.labels = weight.counted = share_of(counts.labels);
  if (counts.without) weight.counted = without(*counts.without);
  if (counts.traced) weight.counted = std::round(batch.results[2].item() * weight.labels);
  if (counts.loss_follows) weight.loss = weight.counted;
  if (counts.mean_without) weight.loss = without(*counts.mean_without);
  return weight;
}

/// Means over batches.
class Means {
 public:
  /// `share`: of all labels of the batch, those that were hit.
  void add(const Weight& weight, double loss, double share) {
    any_ = true;
    weight_ += weight.loss;
    if (weight.loss > 0) loss_ += weight.loss * loss;
    counted_ += weight.counted;
    hits_ += hits(weight, share);
  }
  /// NaN without a batch, 0 when all labels are ignored.
  double loss() const { return !any_ ? std::nan("") : weight_ > 0 ? loss_ / weight_ : 0; }
  /// NaN when nothing counts.
  double accuracy() const { return counted_ > 0 ? hits_ / counted_ : std::nan(""); }

  static double accuracy(const Weight& weight, double share) {
    return weight.counted > 0 ? hits(weight, share) / weight.counted : std::nan("");
  }

 private:
  static double hits(const Weight& weight, double share) {
    return std::round(share * weight.labels);
  }

  bool any_ = false;
  double weight_ = 0, loss_ = 0, counted_ = 0, hits_ = 0;
};

/// The mean of hits that a program gave; NaN when the targets are no labels.
double share_of_hits(const TrainingModule& traced, const TrainerState::Batch& batch) {
  return traced.counts.labels > 0 ? batch.results[1].item() : std::nan("");
}

/// `loss 0.4100  accuracy 85.00 %  validation loss 0.4300  accuracy 84.00 %  scale 1  skipped 0`.
std::string describe(const EpochReport& report, bool validated) {
  auto means = [](double loss, double accuracy) {
    return fmt::format("loss {:.4f}  ", loss) +
           (std::isnan(accuracy) ? "" : fmt::format("accuracy {:.2f} %  ", 100 * accuracy));
  };
  return means(report.loss, report.accuracy) +
         (validated ? "validation " + means(report.validation_loss, report.validation_accuracy)
                    : "") +
         fmt::format("scale {}  skipped {}", report.scale, report.skipped);
}

}  // namespace

double TrainerState::accuracy_of(const Built& built, const Batch& batch) const {
  return Means::accuracy(weigh(built.traced, batch), share_of_hits(built.traced, batch));
}

void TrainerState::run_batches(
    int64_t count, const std::function<std::pair<Built*, Batch*>(int64_t)>& fill,
    const std::function<void(int64_t, const Built&, const Batch&)>& read) {
  using Started = std::pair<Built*, Batch*>;
  // What has been started happens, and counts, also where an error ends the epoch. One that was
  // stopped by a fault of the device has no verdict.
  auto settle = [&](const Started& started) {
    if (!started.first || !is_step(*started.first)) return;
    try {
      this->count(verdict_of(*started.second));
    } catch (const DeviceError&) {
    }
  };
  Started last = {};
  for (int64_t i = 0; i <= count; ++i) {
    Started next = {};
    if (i < count) {
      try {
        next = fill(i);
        run(*next.first, *next.second);
      } catch (...) {
        settle(last);
        throw;
      }
      if (!runs_ahead()) {
        read(i, *next.first, *next.second);
        continue;
      }
    }
    if (last.first) {
      try {
        step_ahead_ = next.first && is_step(*next.first);
        read(i - 1, *last.first, *last.second);
        step_ahead_ = false;
      } catch (...) {
        step_ahead_ = false;
        settle(next);
        throw;
      }
    }
    last = next;
  }
}

EpochReport TrainerState::run_epoch(const Dataset& data, const FitOptions& options, int64_t epochs,
                                    ir::Location location) {
  auto [inputs, targets] = batch_types(data, location);
  int64_t batch = inputs.shape[0], size = data.size();
  int64_t steps = description.options.drop_last ? size / batch : (size + batch - 1) / batch;
  std::vector<int64_t> order(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) order[static_cast<size_t>(i)] = i;
  if (options.shuffle)
    order = shuffled(size, description.options.seed, static_cast<uint64_t>(epoch));
  step_program(inputs, targets);  // compile times are no part of the epoch
  if (steps * batch > size)
    prepare_step(input_type(data.inputs, size % batch), batch_type(data.targets, size % batch));

  EpochReport report;
  report.epoch = ++epoch;
  report.steps = steps;
  auto start = std::chrono::steady_clock::now();
  const std::string title = fmt::format("epoch {}/{}", report.epoch, epochs);
  std::optional<runtime::Progress> progress;  // while the epoch lasts, where lines can be rewritten
  if (options.progress && runtime::console().style().rewrites) progress.emplace(title, steps);
  Means means;
  double scale_before = scale();
  auto fill = [&](int64_t step) -> std::pair<Built*, Batch*> {
    int64_t first = step * batch, count = std::min(batch, size - first);
    Built& built = step_program(input_type(data.inputs, count), batch_type(data.targets, count));
    Batch& next = built.next_batch();
    next.samples = count;
    next.rows.assign(order.begin() + first, order.begin() + first + count);
    gather_rows(data.inputs, next.rows, next.inputs);
    gather_rows(data.targets, next.rows, next.targets);
    return {&built, &next};
  };
  auto read = [&](int64_t step, const Built& built, const Batch& done) {
    StepResult result = read_step(built, done, scale_before);
    scale_before = result.scale;
    if (!result.taken) {
      ++report.skipped;
    } else if (!std::isfinite(result.loss)) {
      ++report.nonfinite_losses;
      tell_of_loss(result, step + 1, location);
    } else {
      means.add(weigh(built.traced, done), result.loss, share_of_hits(built.traced, done));
    }
    if (progress)
      progress->update(step + 1,
                       std::isnan(means.loss()) ? "" : fmt::format("loss {:.4f}", means.loss()));
  };
  run_batches(steps, fill, read);
  report.loss = means.loss();
  report.accuracy = means.accuracy();
  report.scale = scale();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.validation) {
    Evaluation evaluation = evaluate(*options.validation, location);
    report.validation_loss = evaluation.loss;
    report.validation_accuracy = evaluation.accuracy;
  }
  progress.reset();
  if (options.progress)
    runtime::log_info(fmt::format("{} {:.1f} s  {}", title, report.seconds,
                                  describe(report, options.validation.has_value())));
  return report;
}

Evaluation TrainerState::evaluate(const Dataset& data, ir::Location location) {
  batch_types(data, location);  // checks
  int64_t size = data.size(), batch = std::min(description.options.batch, size);
  Means means;
  auto fill = [&](int64_t i) -> std::pair<Built*, Batch*> {
    int64_t first = i * batch, count = std::min(batch, size - first);
    Built& built = evaluation_program(data, count);
    Batch& next = built.next_batch();
    next.samples = count;
    next.count.set_integer(0, count);
    // Padding repeats the last sample: numbers that the model can take.
    next.rows.resize(static_cast<size_t>(next.inputs.shape()[0]));
    for (size_t row = 0; row < next.rows.size(); ++row)
      next.rows[row] = std::min(first + static_cast<int64_t>(row), first + count - 1);
    gather_rows(data.inputs, next.rows, next.inputs);
    gather_rows(data.targets, next.rows, next.targets);
    return {&built, &next};
  };
  auto read = [&](int64_t, const Built& built, const Batch& done) {
    if (done.index_flag.raised())
      throw stop_error(description, built, done, ir::VerdictCode::BadIndex, nullptr, 0, scale(),
                       false);
    means.add(weigh(built.traced, done), done.results[0].item(), share_of_hits(built.traced, done));
  };
  run_batches((size + batch - 1) / batch, fill, read);
  return {means.loss(), means.accuracy()};
}

}  // namespace mezzo::detail
