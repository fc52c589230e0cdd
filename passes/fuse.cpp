// SPDX-License-Identifier: Apache-2.0
// Groups ops into kernels.
//
//   before (stage primitive)                          after (stage fused)
//     %0 = matmul %x, %w : ...                          %1 = kernel @k0 (%x = %x, %w = %w, %b = %b)
//     %1 = add %0, %b : ...                                 {family = "matmul"} : ... {
//     %2 = relu %1 : ...                                  %2 = matmul %x, %w : ...
//     return %2 : ...                                     %3 = add %2, %b : ...
//                                                         %4 = relu %3 : ...
//                                                         yield %4 : ...
//                                                       }
//                                                       return %1 : ...
//
// Relies on: primitive ops only. Guarantees: what is left in the body are kernels, reshapes,
// `all_finite`, `verdict`, constants that are not splats, and the `return`; no op was computed in
// two kernels except inlined ones (views, constants, iota, widening casts, casts of parameters),
// which carry `replica` in every kernel but the first.
//
// Method: (0) reductions over axes that are neither the first nor the last, and an argmax over any
// but the last, are brought to the last axes by a transposition; (1) every op joins the group of a
// producer when the family rules take the union and no cycle arises (program order, so epilogues
// and chains grow forwards); columns take in what has the full shape where it is made of their
// reductions, but no such tensor is kept for the backward pass, and one task of columns over a
// large space stays alone; (2) groups without product whose every reader is one other group are
// pulled into it (prologues, masks, small operands); (3) a columns group joins the rows group that
// makes, or reads too, a value that it reduces, so that no kernel reads that value for the columns
// alone (the gradients of a normalisation's scale and shift; a bias behind a loss); rows of more
// than 16384 elements stay alone; then (2) once more; (4) parameter updates become optimizer
// kernels of up to 128 updates; (5) groups are ordered and built. Groups are bounded in size, and
// the search for cycles is bounded, so the pass is near-linear. Option `unfused = true` leaves out
// (1) to (4): every op is a kernel of its own, with the inlined ops behind it; for tests and for
// finding out what fusion changes.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/passes/fuse_groups.h>
#include <mezzo/passes/fuse_reductions.h>
#include <mezzo/passes/pass.h>

namespace mezzo::passes {

using namespace ir;

namespace {

/// Joins program-order producers and consumers.
void grow_forwards(FuseGraph& graph) {
  for (int node = 0; node < graph.size(); ++node) {
    if (!graph.groupable(node)) continue;
    int own = graph.start_group(node);
    // Each success leaves one group of two, the producer's.
    for (int producer : graph.producer_groups(own))
      if (graph.try_merge(producer, own, FuseGraph::Merge::Forwards)) own = producer;
  }
}

/// Pulls groups into their only reader until nothing moves; each success removes a group, so this
/// ends.
void pull_producers(FuseGraph& graph) {
  std::vector<int> work = graph.live_groups();
  while (!work.empty()) {
    int group = work.back();
    work.pop_back();
    if (!graph.alive(group)) continue;
    for (int producer : graph.producer_groups(group))
      if (graph.only_reader(producer) == group &&
          graph.try_merge(producer, group, FuseGraph::Merge::Pull)) {
        work.push_back(graph.find(group));
        break;
      }
  }
}

bool fuse_function(Function& function, bool unfused) {
  bool changed = normalize_reductions(function);
  FuseGraph graph(function);
  if (unfused) {
    for (int node = 0; node < graph.size(); ++node)
      if (graph.groupable(node)) graph.start_group(node);
    return graph.build() || changed;
  }
  grow_forwards(graph);
  pull_producers(graph);
  // What rows and columns read together has one reader then.
  if (graph.join_columns()) pull_producers(graph);
  graph.merge_updates();
  return graph.build() || changed;
}

}  // namespace

bool fuse(Module& module, PassContext& context) {
  bool changed = false;
  bool unfused = context.options.get_bool("unfused");
  for (const auto& function : module.functions()) {
    for (const Op& op : function->body())
      if (op.kind() == OpKind::Gradient)
        throw UserError(op.location(),
                        "fuse: @" + function->name() + " holds a gradient, which is no kernel",
                        "move 'fuse' after 'autodiff'");
    changed |= fuse_function(*function, unfused);
  }
  changed |= module.stage() != Stage::Fused;
  module.set_stage(Stage::Fused);
  return changed;
}

}  // namespace mezzo::passes
