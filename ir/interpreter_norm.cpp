// SPDX-License-Identifier: Apache-2.0
// The interpreter: normalisations and their gradients, each evaluated whole by its formula,
// whatever the decomposition rounds in between. Means are long double: of equal elements in double
// one may be off by a bit, which a small eps makes large.
#include <mezzo/ir/interpreter_ops.h>

#include <cmath>

namespace mezzo::ir {

namespace {

/// Elements that share their statistics, and for each of them the place of its weight.
struct Part {
  std::vector<int64_t> places, parameters;
};

/// Rows: the axes from `axis` on.
std::vector<Part> row_parts(const Shape& shape, int64_t axis) {
  int64_t length = 1;
  for (int64_t dim : shape.dims().subspan(static_cast<size_t>(axis))) length *= dim;
  std::vector<Part> parts;
  for (int64_t first = 0; first < shape.elements(); first += length) {
    Part& part = parts.emplace_back();
    for (int64_t k = 0; k < length; ++k) {
      part.places.push_back(first + k);
      part.parameters.push_back(k);
    }
  }
  return parts;
}

/// A run of channels of a sample.
std::vector<Part> group_parts(const Shape& shape, int64_t groups) {
  const int64_t channels = shape[shape.rank() - 1], each = channels / groups;
  if (shape.elements() == 0) return {};
  const int64_t sample = shape.elements() / shape[0];
  std::vector<Part> parts(static_cast<size_t>(shape[0] * groups));
  for (int64_t place = 0; place < shape.elements(); ++place) {
    const int64_t channel = place % channels;
    Part& part = parts[static_cast<size_t>(place / sample * groups + channel / each)];
    part.places.push_back(place);
    part.parameters.push_back(channel);
  }
  return parts;
}

/// A channel of all samples.
std::vector<Part> channel_parts(const Shape& shape) {
  const int64_t channels = shape[shape.rank() - 1];
  std::vector<Part> parts(static_cast<size_t>(channels));
  for (int64_t place = 0; place < shape.elements(); ++place) {
    Part& part = parts[static_cast<size_t>(place % channels)];
    part.places.push_back(place);
    part.parameters.push_back(place % channels);
  }
  return parts;
}

double element(const InterpreterTensor& tensor, int64_t place) {
  return tensor.floats[static_cast<size_t>(place)];
}

using Wide = long double;

Wide mean_of(const Part& part, auto value) {
  Wide sum = 0;
  for (size_t k = 0; k < part.places.size(); ++k) sum += value(k);
  return sum / static_cast<Wide>(part.places.size());
}

/// What is subtracted from the elements of a part, and their mean square then.
struct Statistics {
  Wide mean = 0, square = 0;
};

Statistics statistics_of(const InterpreterTensor& x, const Part& part, bool centred) {
  Statistics out;
  if (centred) out.mean = mean_of(part, [&](size_t k) { return element(x, part.places[k]); });
  out.square = mean_of(part, [&](size_t k) {
    const Wide d = element(x, part.places[k]) - out.mean;
    return d * d;
  });
  return out;
}

/// y = (x - mean) / √(square + eps) · weight + bias, operands `weight` and behind it where they are
/// there.
void normalize(OpRun& run, const Part& part, const Statistics& own, int weight) {
  const InterpreterTensor& x = run.operand(0);
  const Wide root = std::sqrt(own.square + run.op.float_attr("eps"));
  for (size_t k = 0; k < part.places.size(); ++k) {
    Wide y = (element(x, part.places[k]) - own.mean) / root;
    if (run.num_operands() > weight) y *= element(run.operand(weight), part.parameters[k]);
    if (run.num_operands() > weight + 1) y += element(run.operand(weight + 1), part.parameters[k]);
    run.store(part.places[k], static_cast<double>(y));
  }
}

/// With h the normalised x and g = dy · weight: dx = (g - mean(g) - h · mean(g · h)) / root, where
/// the mean of g is left out when the statistics are not centred; dweight = Σ dy · h, dbias = Σ dy.
/// Where the elements of a part have one weight, the means are those of dy, times that weight.
class Backward {
 public:
  Backward(OpRun& run, int weight, bool centred, bool one_weight = false)
      : run_(run), weight_(weight), centred_(centred), one_weight_(one_weight) {
    if (!has_weight()) return;
    sums_.assign(static_cast<size_t>(run.operand(weight).elements()), {});
  }

  void add(const Part& part, const Statistics& own) {
    const InterpreterTensor &x = run_.operand(0), &dy = run_.operand(1);
    const Wide root = std::sqrt(own.square + run_.op.float_attr("eps"));
    auto h = [&](size_t k) { return (element(x, part.places[k]) - own.mean) / root; };
    auto g = [&](size_t k) -> Wide {
      const double cotangent = element(dy, part.places[k]);
      return has_weight()
                 ? mul0<Wide>(cotangent, element(run_.operand(weight_), part.parameters[k]))
                 : cotangent;
    };
    auto source = [&](size_t k) -> Wide {
      return one_weight_ ? element(dy, part.places[k]) : g(k);
    };
    Wide along = mean_of(part, [&](size_t k) { return mul0<Wide>(source(k), h(k)); });
    Wide level = centred_ ? mean_of(part, source) : 0;
    if (one_weight_ && has_weight()) {
      const double weight = element(run_.operand(weight_), part.parameters[0]);
      along = mul0<Wide>(along, weight);
      level = mul0<Wide>(level, weight);
    }
    for (size_t k = 0; k < part.places.size(); ++k) {
      const Wide dx = mul0<Wide>(g(k) - level - mul0<Wide>(along, h(k)), 1 / root);
      run_.store(part.places[k], static_cast<double>(dx));
      if (!has_weight()) continue;
      Sums& sums = sums_[static_cast<size_t>(part.parameters[k])];
      const double cotangent = element(dy, part.places[k]);
      sums.weight += mul0<Wide>(cotangent, h(k));
      sums.bias += cotangent;
    }
  }

  void finish() {
    for (size_t k = 0; k < sums_.size(); ++k) {
      run_.store(1, static_cast<int64_t>(k), static_cast<double>(sums_[k].weight));
      if (centred_) run_.store(2, static_cast<int64_t>(k), static_cast<double>(sums_[k].bias));
    }
  }

 private:
  struct Sums {
    Wide weight = 0, bias = 0;
  };
  bool has_weight() const { return run_.num_operands() > weight_; }

  OpRun& run_;
  int weight_;
  bool centred_, one_weight_;
  std::vector<Sums> sums_;
};

void run_forward(OpRun& run, const std::vector<Part>& parts, bool centred) {
  for (const Part& part : parts)
    normalize(run, part, statistics_of(run.operand(0), part, centred), 1);
}

void run_backward(OpRun& run, const std::vector<Part>& parts, bool centred) {
  Backward backward(run, 2, centred);
  for (const Part& part : parts) backward.add(part, statistics_of(run.operand(0), part, centred));
  backward.finish();
}

std::vector<Part> rows_of(const OpRun& run) {
  return row_parts(run.operand(0).type.shape, run.op.int_attr("axis"));
}
std::vector<Part> groups_of(const OpRun& run) {
  return group_parts(run.operand(0).type.shape, run.op.int_attr("groups"));
}

}  // namespace

void eval_layer_norm(OpRun& run) { run_forward(run, rows_of(run), true); }
void eval_layer_norm_grad(OpRun& run) { run_backward(run, rows_of(run), true); }
void eval_rms_norm(OpRun& run) { run_forward(run, rows_of(run), false); }
void eval_rms_norm_grad(OpRun& run) { run_backward(run, rows_of(run), false); }
void eval_group_norm(OpRun& run) { run_forward(run, groups_of(run), true); }
void eval_group_norm_grad(OpRun& run) { run_backward(run, groups_of(run), true); }

// Results: y, the mean, the variance around it, and what the rounded mean lacks.
void eval_batch_norm(OpRun& run) {
  const std::vector<Part> parts = channel_parts(run.operand(0).type.shape);
  for (size_t channel = 0; channel < parts.size(); ++channel) {
    const Statistics own = statistics_of(run.operand(0), parts[channel], true);
    const int64_t place = static_cast<int64_t>(channel);
    normalize(run, parts[channel], own, 1);
    run.store(1, place, static_cast<double>(own.mean));
    run.store(2, place, static_cast<double>(own.square));
    run.store(3, place, static_cast<double>(own.mean - run.result(1).floats[channel]));
  }
}

void eval_batch_norm_grad(OpRun& run) {
  const std::vector<Part> parts = channel_parts(run.operand(0).type.shape);
  Backward backward(run, 5, true, true);
  for (size_t channel = 0; channel < parts.size(); ++channel) {
    if (parts[channel].places.empty()) continue;
    auto statistic = [&](int operand) { return run.operand(operand).floats[channel]; };
    backward.add(parts[channel], {Wide{statistic(2)} + statistic(4), statistic(3)});
  }
  backward.finish();
}

void eval_batch_norm_inference(OpRun& run) {
  const std::vector<Part> parts = channel_parts(run.operand(0).type.shape);
  for (size_t channel = 0; channel < parts.size(); ++channel) {
    auto statistic = [&](int operand) { return run.operand(operand).floats[channel]; };
    normalize(run, parts[channel], {statistic(1), statistic(2)}, 3);
  }
}

}  // namespace mezzo::ir
