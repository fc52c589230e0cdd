// SPDX-License-Identifier: Apache-2.0
// Assigns every value of the body a place: an offset in the activation arena, the state that it
// updates, or the buffer of a function result.
//
//   before   %1 = kernel @k0 (...) {family = "rows"} plan {...} : ...
//   after    %1 = kernel @k0 (...) {family = "rows", places = [0]} plan {...} : ...
//            and on the function: attributes {arena = 4096}
//
// A place is an integer (bytes into the arena, a multiple of 64), `%w` (written in place of
// parameter w) or
// `@result<n>` (the buffer of result n). An update is written in place when nothing reads the old
// value after its kernel and its own kernel reads it only at the element that it writes; otherwise
// it goes to its result buffer, and the runtime copies it into the state at the end of the run. A
// reshape shares the place of its operand and has none. Lifetimes come from the order of the ops,
// so places are as good for every thread count.
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/sizes.h>
#include <mezzo/passes/pass.h>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace mezzo::passes {

using namespace ir;

namespace {

constexpr int64_t kAlignment = 64;

int64_t rounded(int64_t bytes) {
  return (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

/// Free ranges of an arena that grows at its end.
class Arena {
 public:
  int64_t take(int64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
    if (best == free_.end()) {
      // Grow: a free range at the very end is part of the new block.
      int64_t offset = size_;
      if (!free_.empty()) {
        auto last = std::prev(free_.end());
        if (last->first + last->second == size_) {
          offset = last->first;
          free_.erase(last);
        }
      }
      size_ = offset + bytes;
      return offset;
    }
    auto [offset, length] = *best;
    free_.erase(best);
    if (length > bytes) free_[offset + bytes] = length - bytes;
    return offset;
  }

  void give_back(int64_t offset, int64_t bytes) {
    auto [it, fresh] = free_.emplace(offset, bytes);
    auto next = std::next(it);
    if (next != free_.end() && it->first + it->second == next->first) {
      it->second += next->second;
      free_.erase(next);
    }
    if (it != free_.begin()) {
      auto before = std::prev(it);
      if (before->first + before->second == it->first) {
        before->second += it->second;
        free_.erase(it);
      }
    }
  }

  int64_t size() const { return size_; }

 private:
  std::map<int64_t, int64_t> free_;  // offset -> bytes
  int64_t size_ = 0;
};

class Planner {
 public:
  explicit Planner(Function& function) : function_(function) {
    int64_t number = 0;
    for (Op& op : function.body()) order_[&op] = number++;
    for (Op& op : function.body())
      for (Value operand : op.operands()) {
        int64_t& last = last_read_[storage_of(operand).def()];
        last = std::max(last, order_.at(&op));
      }
  }

  void run() {
    place_results();
    Arena arena;
    std::map<int64_t, std::vector<std::pair<int64_t, int64_t>>>
        ending;  // last reader -> (offset, bytes)
    for (Op& op : function_.body()) {
      if (has_places(op)) {
        AttrList places;
        for (Value value : op.results()) {
          auto it = places_.find(value.def());
          if (it != places_.end()) {
            places.push_back(it->second);
            continue;
          }
          int64_t bytes = rounded(value.type().bytes());
          check_fits(op, value, bytes, arena.size());
          int64_t offset = arena.take(bytes);
          auto last = last_read_.find(value.def());
          ending[last == last_read_.end() ? order_.at(&op) : last->second].emplace_back(offset,
                                                                                        bytes);
          places.emplace_back(offset);
        }
        op.attrs().set("places", Attr(std::move(places)));
      }
      // Operands of an op live until it is done, so ranges are given back after its results were
      // placed.
      auto done = ending.find(order_.at(&op));
      if (done == ending.end()) continue;
      for (auto [offset, bytes] : done->second) arena.give_back(offset, bytes);
    }
    function_.attrs().set("arena", arena.size());
  }

 private:
  static bool has_places(const Op& op) {
    return op.kind() == OpKind::Kernel || op.kind() == OpKind::AllFinite ||
           op.kind() == OpKind::Verdict;
  }

  void check_fits(const Op& op, Value value, int64_t bytes, int64_t beside) const {
    if (bytes <= kMostOfPlan - beside) return;
    throw UserError(op.origin().location,
                    std::string(op.origin().name ? op.origin().name : to_string(op.kind())) +
                        ": the " + std::to_string(value.type().bytes()) + " bytes of a " +
                        to_string(value.type()) + " and the " + std::to_string(beside) +
                        " of other values of @" + function_.name() + " are more than 2^59",
                    "no machine has so much memory; make tensors smaller, or work in parts");
  }

  void place_results() {
    std::vector<Value> results = function_.results();
    for (int i = 0; i < function_.num_results(); ++i) {
      Value value = results[static_cast<size_t>(i)];
      // A parameter, a constant or a reshape of one is copied by the runtime; so is a second result
      // of one value.
      Value storage = storage_of(value);
      if (storage.is_parameter() || !has_places(*storage.op()) || places_.contains(storage.def()))
        continue;
      Value updated = function_.updated_parameter(i);
      if (updated && may_write_in_place(storage, updated))
        places_.emplace(storage.def(), Attr(ValueRef{updated.def()}));
      else
        places_.emplace(storage.def(), Attr(Symbol{"result" + std::to_string(i)}));
    }
  }

  /// Nothing reads `parameter` after the op that makes `value`, and that op reads it nowhere but at
  /// the element that it writes.
  bool may_write_in_place(Value value, Value parameter) {
    Op* writer = value.op();
    if (writer->kind() != OpKind::Kernel) return false;
    auto last = last_read_.find(parameter.def());
    if (last != last_read_.end() && last->second > order_.at(writer)) return false;
    return rules_.try_emplace(writer, *writer).first->second.allows(value.index(), parameter);
  }

  Function& function_;
  std::unordered_map<const Op*, int64_t> order_;
  std::unordered_map<const ValueDef*, int64_t> last_read_;
  std::unordered_map<const ValueDef*, Attr> places_;
  std::unordered_map<const Op*, InPlaceRule> rules_;
};

}  // namespace

bool plan_memory(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& function : module.functions()) {
    if (function->attrs().has("arena")) continue;
    for (const Op& op : function->body())
      if (op.kind() == OpKind::Kernel && !op.has_plan())
        throw UserError(op.origin().location,
                        "kernel @" + op.kernel_name() + " of @" + function->name() +
                            " has no plan, so the size of its workspace is unknown",
                        "plan-kernels runs before plan-memory");
    Planner(*function).run();
    changed = true;
  }
  changed |= module.stage() != Stage::Planned;
  module.set_stage(Stage::Planned);
  return changed;
}

}  // namespace mezzo::passes
