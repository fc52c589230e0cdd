// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/verdict.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <unordered_map>

namespace mezzo::ir {

const char* to_string(VerdictCode code) {
  constexpr const char* kNames[] = {
      "taken",        "nonfinite_loss", "nonfinite_parameter",   "bad_input", "forward_overflow",
      "domain_error", "scale_overflow", "backward_domain_error", "unknown",   "bad_index"};
  size_t index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "?";
}

namespace {

/// Worded ops (their place, 0 and up) and parameters (-1 - index) that a value comes from.
using Sources = std::vector<int>;

void merge(Sources& into, const Sources& more) {
  Sources both;
  std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(both));
  into = std::move(both);
}

class TableBuilder {
 public:
  explicit TableBuilder(const Function& function) : function_(function) {
    for (int i = 0; i < function.num_parameters(); ++i) {
      sources_[function.parameter(i).def()] = {-1 - i};
      table_.is_param.push_back(function.is_param(i) ||
                                function.parameter_attrs(i).has("mirror_of"));
    }
    walk(function.body());
    for (size_t i = 0; i < table_.entries.size(); ++i) finish(static_cast<int>(i));
    table_.scale_parameter = find_scale();
  }

  VerdictTable take() { return std::move(table_); }

 private:
  void walk(const Region& region) {
    for (const Op& op : region) {
      if (op.kind() == OpKind::ScaleUpdate) scale_ = sources_[op.operand(0).def()];
      if (op.body()) {
        walk_kernel(op);
        continue;
      }
      Sources incoming;
      for (Value operand : op.operands()) merge(incoming, sources_[operand.def()]);
      const Attr* word = op.attrs().find("word");
      Sources outgoing = word ? Sources{add(op, word->as<int64_t>(), incoming)} : incoming;
      for (Value result : op.results()) sources_[result.def()] = outgoing;
    }
  }

  void walk_kernel(const Op& kernel) {
    const Region& body = *kernel.body();
    for (int i = 0; i < body.num_parameters(); ++i)
      sources_[body.parameter(i).def()] = sources_[kernel.operand(i).def()];
    walk(body);
    for (int i = 0; i < kernel.num_results(); ++i)
      sources_[kernel.result(i).def()] = sources_[body.terminator()->operand(i).def()];
  }

  /// The entry of the op's word, which now also reads `incoming`.
  int add(const Op& op, int64_t word, const Sources& incoming) {
    auto [it, fresh] = places_.emplace(word, static_cast<int>(table_.entries.size()));
    bool casts = op.kind() == OpKind::Cast && !incoming.empty() && incoming.back() < 0;
    if (fresh) {
      VerdictEntry entry;
      entry.word = word;
      entry.kind = op.kind();
      entry.name = op.origin().name ? op.origin().name : op.info().name;
      entry.location = op.location();
      std::string role = op.role();
      entry.role = role == "forward"    ? Role::Forward
                   : role == "backward" ? Role::Backward
                   : role == "update"   ? Role::Update
                                        : Role::Scale;
      entry.casts_parameter = casts;
      table_.entries.push_back(std::move(entry));
      incoming_.emplace_back();
    }
    size_t place = static_cast<size_t>(it->second);
    VerdictEntry& entry = table_.entries[place];
    entry.casts_parameter &= casts;
    entry.has_domain |= op.info().has(Trait::Partial);
    merge(incoming_[place], incoming);
    return it->second;
  }

  void finish(int place) {
    VerdictEntry& entry = table_.entries[static_cast<size_t>(place)];
    for (int source : incoming_[static_cast<size_t>(place)]) {
      if (source < 0)
        entry.parameters.push_back(-1 - source);
      else if (source != place)  // a part of the same operation is not another producer
        entry.producers.push_back(source);
    }
    std::sort(entry.parameters.begin(), entry.parameters.end());
  }

  /// The parameter that `scale_update` updates. Once that op is decomposed, the scale is the f32
  /// scalar state whose update depends on a verdict.
  int find_scale() const {
    if (scale_.size() == 1 && scale_[0] < 0) return -1 - scale_[0];
    std::unordered_map<const ValueDef*, bool> judged;
    for (const Op& op : function_.body()) {
      bool depends = op.kind() == OpKind::Verdict;
      for (Value operand : op.operands()) depends = depends || judged[operand.def()];
      for (Value result : op.results()) judged[result.def()] = depends;
    }
    std::vector<Value> results = function_.results();
    for (int i = 0; i < function_.num_results(); ++i) {
      Value state = function_.updated_parameter(i);
      if (state && state.type() == Type(DType::F32, {}) && !function_.is_param(state.index()) &&
          judged[results[static_cast<size_t>(i)].def()])
        return state.index();
    }
    return -1;
  }

  const Function& function_;
  VerdictTable table_;
  std::unordered_map<const ValueDef*, Sources> sources_;
  std::unordered_map<int64_t, int> places_;
  std::vector<Sources> incoming_;  // by entry
  Sources scale_;
};

/// Reads the words of a table.
class Judge {
 public:
  Judge(const VerdictTable& table, const StepFacts& facts) : table_(table), facts_(facts) {}

  int32_t decide() const {
    if (facts_.index_range) return verdict(VerdictCode::BadIndex, nullptr);
    if (facts_.all_finite && facts_.loss_finite) return 0;
    if (facts_.all_finite) return verdict(VerdictCode::NonfiniteLoss, first(Role::Forward));
    if (int32_t found = nonfinite_parameter()) return found;
    if (int32_t found = bad_input()) return found;
    if (const VerdictEntry* entry = first(Role::Forward)) return made_by(*entry);
    if (const VerdictEntry* entry = first(Role::Backward)) {
      if (has(*entry, FlagBit::Overflow)) return verdict(VerdictCode::ScaleOverflow, entry);
      if (has(*entry, FlagBit::Pole) || entry->has_domain)
        return verdict(VerdictCode::BackwardDomainError, entry);
      return verdict(facts_.scaled ? VerdictCode::ScaleOverflow : VerdictCode::Unknown, entry);
    }
    // A rate, for instance: made without a scaled number.
    if (const VerdictEntry* entry = first(Role::Update)) return made_by(*entry);
    return verdict(VerdictCode::Unknown, first(Role::Scale));
  }

 private:
  int32_t made_by(const VerdictEntry& entry) const {
    bool domain = !has(entry, FlagBit::Overflow) && (has(entry, FlagBit::Pole) || entry.has_domain);
    return verdict(domain ? VerdictCode::DomainError : VerdictCode::ForwardOverflow, &entry);
  }

  static int32_t verdict(VerdictCode code, const VerdictEntry* entry) {
    int64_t word = entry ? entry->word : 0;
    return static_cast<int32_t>(static_cast<int64_t>(code) + 256 * word);
  }

  bool has(const VerdictEntry& entry, FlagBit bit) const {
    size_t word = static_cast<size_t>(entry.word);
    return word < facts_.words.size() && has_flag(facts_.words[word], bit);
  }

  bool asked(int parameter) const {
    return facts_.parameter_has_nonfinite && facts_.parameter_has_nonfinite(parameter);
  }

  /// Non-finite although no worded op before it is.
  bool produces(const VerdictEntry& entry) const {
    return has(entry, FlagBit::NonFinite) &&
           std::none_of(entry.producers.begin(), entry.producers.end(), [&](int producer) {
             return has(table_.entries[static_cast<size_t>(producer)], FlagBit::NonFinite);
           });
  }

  const VerdictEntry* first(Role role) const {
    for (const VerdictEntry& entry : table_.entries)
      if (entry.role == role && produces(entry)) return &entry;
    return nullptr;
  }

  int32_t nonfinite_parameter() const {
    for (size_t i = 0; i < table_.is_param.size(); ++i) {
      int parameter = static_cast<int>(i);
      if (!table_.is_param[i] || !asked(parameter)) continue;
      const VerdictEntry* reader = nullptr;
      for (const VerdictEntry& entry : table_.entries)
        if (!reader && std::count(entry.parameters.begin(), entry.parameters.end(), parameter))
          reader = &entry;
      return verdict(VerdictCode::NonfiniteParameter, reader);
    }
    for (const VerdictEntry& entry : table_.entries) {
      if (!entry.casts_parameter || !produces(entry)) continue;
      for (int parameter : entry.parameters)
        if (table_.is_param[static_cast<size_t>(parameter)])
          return verdict(VerdictCode::NonfiniteParameter, &entry);
    }
    return 0;
  }

  /// An input counts only where it made an op non-finite: one that is masked away does no harm.
  int32_t bad_input() const {
    for (const VerdictEntry& entry : table_.entries) {
      if (entry.role == Role::Update || entry.role == Role::Scale || !produces(entry)) continue;
      for (int parameter : entry.parameters)
        if (parameter != table_.scale_parameter && asked(parameter))
          return verdict(VerdictCode::BadInput, &entry);
    }
    return 0;
  }

  const VerdictTable& table_;
  const StepFacts& facts_;
};

}  // namespace

VerdictTable VerdictTable::from(const Function& function) { return TableBuilder(function).take(); }

int32_t judge(const VerdictTable& table, const StepFacts& facts) {
  return Judge(table, facts).decide();
}

}  // namespace mezzo::ir
