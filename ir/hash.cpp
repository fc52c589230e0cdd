// SPDX-License-Identifier: Apache-2.0
// Values are hashed by their number in order of definition, so that a digest depends on structure
// alone.
#include <mezzo/ir/hash.h>

#include <mezzo/ir/error.h>

#include <unordered_map>

namespace mezzo::ir {

namespace {

enum class Detail : uint8_t { Everything, Kernel };

class Hasher {
 public:
  explicit Hasher(Detail detail) : detail_(detail) {}

  void function(const Function& function) {
    hash_.update(function.name()).update(function.num_parameters());
    for (Value parameter : function.parameters()) define(parameter);
    for (int i = 0; i < function.num_parameters(); ++i) {
      const Attrs& attrs = function.parameter_attrs(i);
      bool interface = attrs.has("param") || attrs.has("state");
      hash_.update(interface ? function.parameter(i).name() : std::string_view());
      attributes(attrs);
    }
    attributes(function.attrs());
    region(function.body());
    hash_.update(function.num_results());
    for (int i = 0; i < function.num_results(); ++i) attributes(function.result_attrs(i));
  }

  void kernel(const Op& op) {
    attributes(op.attrs(), &op);
    plan(op);
    for (Value parameter : op.body()->parameters()) define(parameter);
    region(*op.body());
  }

  void op(const Op& op) {
    hash_.update(op.info().name).update(op.num_operands()).update(op.num_results());
    for (int i = 0; i < op.num_operands(); ++i) reference(op.operand(i).def());
    for (int i = 0; i < op.num_results(); ++i) define(op.result(i));
    if (!op.body()) return attributes(op.attrs(), &op);
    hash_.update(op.kernel_name());
    kernel(op);
  }

  void attributes(const Attrs& attrs, const Op* op = nullptr) {
    for (const auto& [name, attr] : attrs) {
      const AttrInfo* info = op ? op->info().attribute(name) : nullptr;
      if (info && info->fallback && *info->fallback == attr) continue;
      if (detail_ == Detail::Kernel && info && info->argument) continue;
      // Of a constant: a slot of the kernel.
      if (detail_ == Detail::Kernel && op && op->kind() == OpKind::Constant &&
          std::string_view(name) == "value")
        continue;
      hash_.update(name);
      attribute(attr);
    }
    hash_.update("");
  }

  Hash128& hash() { return hash_; }

 private:
  void define(Value value) {
    numbers_.emplace(value.def(), static_cast<int64_t>(numbers_.size()));
    hash_.update(static_cast<int>(value.dtype())).update(value.shape().rank());
    for (int64_t dim : value.shape()) hash_.update(dim);
  }

  void reference(const ValueDef* value) {
    auto it = numbers_.find(value);
    hash_.update(it == numbers_.end() ? int64_t{-1} : it->second);
  }

  void region(const Region& region) {
    for (const Op& inner : region) op(inner);
    hash_.update("end");
  }

  void plan(const Op& op) {
    hash_.update(op.has_plan());
    for (const auto& [name, attr] : op.plan()) {
      if (detail_ == Detail::Kernel && std::string_view(name) == "reason") continue;
      hash_.update(name);
      attribute(attr);
    }
  }

  void attribute(const Attr& attr) {
    hash_.update(attr.data().index());
    std::visit([&](const auto& data) { datum(data); }, attr.data());
  }
  void datum(int64_t value) { hash_.update(value); }
  void datum(double value) { hash_.update(value); }
  void datum(bool value) { hash_.update(value); }
  void datum(const std::string& value) { hash_.update(value); }
  void datum(DType value) { hash_.update(static_cast<int>(value)); }
  void datum(const Bits& value) { hash_.update(value.bits).update(value.digits); }
  void datum(const ValueRef& value) { reference(value.value); }
  void datum(const Symbol& value) { hash_.update(value.name); }
  void datum(const Resource& value) { hash_.update(value.name); }
  void datum(const AttrList& list) {
    hash_.update(list.size());
    for (const Attr& item : list) attribute(item);
  }

  Detail detail_;
  Hash128 hash_;
  std::unordered_map<const ValueDef*, int64_t> numbers_;
};

}  // namespace

Digest structural_hash(const Function& function) {
  Hasher hasher(Detail::Everything);
  hasher.function(function);
  return hasher.hash().digest();
}

Digest structural_hash(const Module& module) {
  Hasher hasher(Detail::Everything);
  hasher.hash().update(module.name()).update(to_string(module.stage()));
  hasher.attributes(module.attrs());
  for (const auto& function : module.functions()) hasher.hash().update(structural_hash(*function));
  return hasher.hash().digest();
}

Digest kernel_hash(const Op& kernel) {
  MEZZO_CHECK(kernel.body(), std::string("hashed '") + kernel.info().name + "' as a kernel");
  Hasher hasher(Detail::Kernel);
  hasher.kernel(kernel);
  return hasher.hash().digest();
}

}  // namespace mezzo::ir
