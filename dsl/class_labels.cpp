// SPDX-License-Identifier: Apache-2.0
// The labels of an accuracy are those of the loss: what its cross_entropy (or nll) reads is what
// the model learns, however the targets of the data set became it. Only a loss without one leaves
// the targets themselves.
#include <mezzo/dsl/class_labels.h>

#include <mezzo/dsl/ops.h>

#include <algorithm>
#include <set>

namespace mezzo::detail {

namespace {

using ir::OpKind;
using ir::Value;

/// What stands behind reshapes and casts: the same numbers in the same order.
Value behind_casts(Value value) {
  while (value.is(OpKind::Reshape) || value.is(OpKind::Cast)) value = value.op()->operand(0);
  return value;
}

/// The same for labels: a cast to fewer bits, or by way of floats, makes other labels.
Value behind_wide_casts(Value value) {
  auto keeps = [](Value now) {
    return now.is(OpKind::Reshape) ||
           (now.is(OpKind::Cast) && (now.dtype() == i32 || now.dtype() == i64));
  };
  while (keeps(value)) value = value.op()->operand(0);
  return value;
}

bool reads_labels(const ir::Op& op) {
  return op.kind() == OpKind::CrossEntropy || op.kind() == OpKind::Nll;
}

int64_t classes_of(const ir::Op& entropy) {
  return entropy.operand(0).shape()[entropy.operand(0).type().rank() - 1];
}

/// The labels that a loss is a mean over, and the ignored one.
struct MeanLabels {
  Value labels;
  int64_t ignored = 0;
  bool operator==(const MeanLabels&) const = default;
};

/// The labels of the cross_entropy that `loss` is a mean of, up to a constant factor; empty where
/// the loss is something else. A sum of such means over the same labels is one too; with a term of
/// another kind it is none: no weight of a batch suits both. Looks `depth` ops far, so that a loss
/// that adds itself to itself over and over is not walked along every path.
std::optional<MeanLabels> mean_labels(Value loss, int depth = 16) {
  if (loss.is_parameter() || depth == 0) return std::nullopt;
  const ir::Op& op = *loss.op();
  auto of = [&](int operand) { return mean_labels(op.operand(operand), depth - 1); };
  auto constant = [&](int operand) {
    return behind_casts(op.operand(operand)).is(OpKind::Constant);
  };
  switch (op.kind()) {
    case OpKind::CrossEntropy:
    case OpKind::Nll:
      // With weights of the classes a batch weighs as its labels do.
      if (op.string_attr("reduce") != "mean" || op.num_operands() > 2) return std::nullopt;
      return MeanLabels{behind_wide_casts(op.operand(1)), op.int_attr("ignore_index")};
    case OpKind::Sum:
    case OpKind::Mean:
      return op.operand(0).type().elements() == 1 ? of(0) : std::nullopt;
    case OpKind::Cast:
    case OpKind::Reshape:
    case OpKind::Neg:
      return of(0);
    case OpKind::Mul:
      return constant(1) ? of(0) : constant(0) ? of(1) : std::nullopt;
    case OpKind::Div:
      return constant(1) ? of(0) : std::nullopt;
    case OpKind::Add:
    case OpKind::Sub: {
      std::optional<MeanLabels> first = of(0), second = of(1);
      return first == second ? first : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

/// The cross_entropy of `loss` whose labels are the task's: one that reads the targets rather than
/// one that does not, one of the output rather than one of other logits, the first of equals. Null
/// where the loss has none.
const ir::Op* find_entropy(const ir::Function& function, Value loss, Value output, Value targets) {
  std::set<const ir::Op*> read;  // by the loss
  std::vector<const ir::Op*> ops;
  for (const ir::Op& op : function.body()) ops.push_back(&op);
  if (!loss.is_parameter()) read.insert(loss.op());
  for (auto op = ops.rbegin(); op != ops.rend(); ++op)
    if (read.count(*op))
      for (Value operand : (*op)->operands())
        if (!operand.is_parameter()) read.insert(operand.op());

  std::set<const ir::ValueDef*> made_of_targets{targets.def()};
  const ir::Op* best = nullptr;
  int best_rank = -1;
  for (const ir::Op* op : ops) {
    for (Value operand : op->operands())
      if (made_of_targets.count(operand.def()))
        for (Value result : op->results()) made_of_targets.insert(result.def());
    if (!reads_labels(*op) || !read.count(op)) continue;
    int rank = 2 * static_cast<int>(made_of_targets.count(op->operand(1).def())) +
               (behind_casts(op->operand(0)) == behind_casts(output));
    if (rank > best_rank) best = op;
    best_rank = std::max(rank, best_rank);
  }
  return best;
}

/// Whether the targets are one class for each row of the output, axes of length 1 aside.
bool are_labels(const ir::Type& output, const ir::Type& targets) {
  if (!ir::is_integer(targets.dtype) || output.rank() == 0) return false;
  auto longer = [](const Shape& shape, int axes) {
    std::vector<int64_t> lengths;
    for (int i = 0; i < axes; ++i)
      if (shape[i] != 1) lengths.push_back(shape[i]);
    return lengths;
  };
  // One class is none: there is nothing to choose from.
  return output.shape[output.rank() - 1] > 1 &&
         longer(output.shape, output.rank() - 1) == longer(targets.shape, targets.rank());
}

Tensor mean_of_bools(const Tensor& bools, ir::Location location) {
  return mean(Operand(cast(Operand(bools, location), f32), location));
}

}  // namespace

std::vector<LabelRange> find_label_ranges(const ir::Function& function) {
  std::vector<LabelRange> labels;
  for (const ir::Op& op : function.body())
    if (reads_labels(op) && behind_wide_casts(op.operand(1)) == function.parameter(1))
      labels.push_back({classes_of(op), op.int_attr("ignore_index"), op.location()});
  return labels;
}

LabelCounts trace_accuracy(Trace& trace, const Tensor& output, const Tensor& targets,
                           std::vector<Value>& results, ir::Location location) {
  LabelCounts counts;
  auto add = [&](const Tensor& share) {
    results.push_back(trace.value(share, "accuracy", location));
  };
  const Value y = trace.value(targets, "accuracy", location);
  const Value loss = results[0];
  const ir::Op* entropy =
      find_entropy(*trace.function(), loss, trace.value(output, "accuracy", location), y);
  if (!entropy) {
    if (!are_labels(output.type(), targets.type())) return counts;
    Tensor chosen = argmax(Operand(output, location));
    if (!(chosen.shape() == targets.shape()))
      chosen = reshape(Operand(chosen, location), targets.shape());
    add(mean_of_bools(eq(Operand(chosen, location), Operand(targets, location)), location));
    counts.labels = targets.type().elements();
    return counts;
  }

  const int64_t ignored = entropy->int_attr("ignore_index"), classes = classes_of(*entropy);
  const Value labels = entropy->operand(1), plain = behind_wide_casts(labels);
  counts.labels = labels.type().elements();
  const Tensor label = trace.tensor(labels);
  Operand each(label, location);
  Tensor hit =
      eq(Operand(argmax(Operand(trace.tensor(entropy->operand(0)), location)), location), each);
  auto is_counted = [&] { return ne(each, Operand(ignored).at(location)); };
  // An ignored label that is no class is missed anyway.
  if (ignored >= 0 && ignored < classes)
    hit = logical_and(Operand(hit, location), Operand(is_counted(), location));
  add(mean_of_bools(hit, location));
  if (plain == y) {
    counts.without = ignored;
  } else if (ir::wrap_integer(labels.dtype(), ignored) == ignored) {  // else no label can say it
    add(mean_of_bools(is_counted(), location));
    counts.traced = true;
  }
  if (std::optional<MeanLabels> mean = mean_labels(loss)) {
    counts.loss_follows = *mean == MeanLabels{plain, ignored};
    if (!counts.loss_follows && mean->labels == y) counts.mean_without = mean->ignored;
  }
  return counts;
}

}  // namespace mezzo::detail
