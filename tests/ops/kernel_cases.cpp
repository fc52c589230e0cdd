// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/printer.h>
#include <mezzo/ir/shape_rules.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <ops/kernel_case_draft.h>

namespace mezzo::test {

using ir::Attr;
using ir::AttrKind;
using ir::Attrs;
using ir::DType;
using ir::OpInfo;
using ir::OpKind;
using ir::Shape;
using ir::Trait;
using ir::Type;
using ir::TypeRule;

namespace {

/// What an attribute is set to where no generator knows better, away from its default.
Attr trial(const ir::AttrInfo& attribute) {
  switch (attribute.kind) {
    case AttrKind::Bool:
      return Attr(!(attribute.fallback && attribute.fallback->as<bool>()));
    case AttrKind::Float:
      return Attr(0.25);
    default:
      return Attr(int64_t{1});
  }
}

}  // namespace

void Draft::add(std::vector<Type> operands, const Attrs& attrs, std::vector<Type> declared,
                std::string domains, int64_t index_limit) const {
  KernelCase each{kind,  std::move(operands), std::move(domains),
                  attrs, std::move(declared), index_limit};
  if (each.domains.empty() && *info().domain)
    for (size_t i = 0; i < each.operands.size(); ++i)
      each.domains += info().domain_of(static_cast<int>(i));
  MEZZO_CHECK(each.domains.size() == each.operands.size(),
              std::string("no input domains for '") + info().name + "'");
  auto is_open = [&](const ir::AttrInfo& attribute) {
    AttrKind kind_of = attribute.kind;
    return !attribute.argument && !attrs.has(attribute.name) &&
           (kind_of == AttrKind::Bool || kind_of == AttrKind::Int || kind_of == AttrKind::Float);
  };
  for (const ir::AttrInfo& attribute : info().attributes)
    if (attribute.required && is_open(attribute)) each.attrs.set(attribute.name, trial(attribute));
  cases.push_back(each);
  if (!small()) return;
  for (const ir::AttrInfo& attribute : info().attributes) {
    if (attribute.required || !is_open(attribute)) continue;
    KernelCase variant = each;
    variant.attrs.set(attribute.name, trial(attribute));
    cases.push_back(std::move(variant));
  }
}

namespace {

void elementwise(const Draft& draft) {
  std::vector<std::vector<Shape>> classes;
  for (const Shape& shape : draft.shapes()) classes.push_back({shape});
  if (draft.small()) {
    classes.push_back({Shape{5, 1, 3}, Shape{4, 3}, Shape{1}});
    classes.push_back({Shape{13}, Shape{7, 13}, Shape{}});
    classes.push_back({Shape{7, 1}, Shape{1, 13}, Shape{7, 13}});
  } else {
    classes.push_back({Shape{kRows, kColumns}, Shape{kColumns}, Shape{kRows, 1}});
  }
  const OpInfo& info = draft.info();
  int count = info.max_operands < 0 ? 4 : info.max_operands;
  for (const std::vector<Shape>& shapes : classes) {
    if (count == 1 && shapes.size() > 1) continue;
    std::vector<Type> operands;
    for (int i = 0; i < count; ++i) {
      bool condition = info.types == TypeRule::Select && i == 0;
      operands.emplace_back(condition ? DType::Bool : draft.dtype,
                            shapes[static_cast<size_t>(i) % shapes.size()]);
    }
    if (info.types != TypeRule::Cast) {
      draft.add(operands, {});
      continue;
    }
    for (DType to : ir::kAllDTypes) draft.add(operands, {}, {operands[0].with(to)});
  }
}

void sources(const Draft& draft) {
  for (const Shape& shape : draft.shapes()) {
    Type type(draft.dtype, shape);
    if (!draft.info().attribute("value")) {
      for (int64_t axis = 0; axis < shape.rank(); ++axis)
        draft.add({}, {{"axis", Attr(axis)}}, {type});
      continue;
    }
    draft.add({}, {{"value", ir::scalar_attr(draft.dtype, 1)}}, {type});
    if (shape.elements() > 5000) continue;
    ir::AttrList list;
    for (int64_t i = 0; i < shape.elements(); ++i)
      list.push_back(ir::scalar_attr(draft.dtype, static_cast<double>(i % 7 == 3)));
    draft.add({}, {{"value", Attr(list)}}, {type});
  }
}

void broadcasts(const Draft& draft) {
  std::vector<std::pair<Shape, Ints>> pairs = {{Shape{kColumns}, {kRows, kColumns}},
                                               {Shape{kRows, 1}, {kRows, kColumns}}};
  if (draft.small())
    pairs = {{Shape{}, {}},         {Shape{}, {7, 13}},       {Shape{1}, {4097}},
             {Shape{13}, {7, 13}},  {Shape{7, 1}, {7, 13}},   {Shape{3, 1, 5}, {2, 3, 4, 5}},
             {Shape{1, 4}, {0, 4}}, {Shape{3, 0}, {2, 3, 0}}, {Shape{7, 13}, {7, 13}}};
  for (const auto& [from, to] : pairs) draft.add({Type(draft.dtype, from)}, {{"shape", Attr(to)}});
}

void reshapes(const Draft& draft) {
  for (const Shape& shape : draft.shapes()) {
    Ints dims(shape.begin(), shape.end()), turned(dims.rbegin(), dims.rend()), longer = dims;
    longer.insert(longer.begin() + shape.rank() / 2, 1);
    for (const Ints& to : {Ints{shape.elements()}, longer, turned})
      draft.add({Type(draft.dtype, shape)}, {{"shape", Attr(to)}});
  }
}

void transposes(const Draft& draft) {
  for (const Shape& shape : draft.shapes()) {
    Ints perm(static_cast<size_t>(shape.rank()));
    std::iota(perm.begin(), perm.end(), 0);
    do {
      draft.add({Type(draft.dtype, shape)}, {{"perm", Attr(perm)}});
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
}

void slices(const Draft& draft) {
  for (const Shape& shape : draft.shapes())
    for (int kind = 0; kind < 4; ++kind) {
      Ints starts, ends, steps;
      for (int64_t dim : shape) {
        starts.push_back(kind == 0 ? 0 : kind == 3 ? dim / 2 : std::min<int64_t>(1, dim));
        ends.push_back(kind == 3 ? dim / 2 : dim);
        steps.push_back(kind == 2 ? 3 : 1);
      }
      draft.add({Type(draft.dtype, shape)},
                {{"starts", Attr(starts)}, {"ends", Attr(ends)}, {"steps", Attr(steps)}});
    }
}

void pads(const Draft& draft) {
  for (const Shape& shape : draft.shapes())
    for (int64_t kind = 0; kind < 4; ++kind) {
      size_t rank = static_cast<size_t>(shape.rank());
      Ints low(rank, kind & 1), high(rank, kind), interior(rank, kind >> 1);
      draft.add({Type(draft.dtype, shape)},
                {{"low", Attr(low)}, {"high", Attr(high)}, {"interior", Attr(interior)}});
    }
}

void reductions(const Draft& draft) {
  bool one_axis = draft.info().attribute("axis") != nullptr;
  for (const Shape& shape : draft.shapes()) {
    std::vector<Ints> choices;
    Ints all(static_cast<size_t>(shape.rank()));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t axis : all) choices.push_back({axis});
    if (!one_axis) choices.push_back({});
    if (!one_axis && shape.rank() > 1) choices.push_back(all);
    if (!one_axis && shape.rank() > 2) choices.insert(choices.end(), {{0, 1}, {1, 2}, {0, 2}});
    for (const Ints& axes : choices)
      draft.add({Type(draft.dtype, shape)},
                one_axis ? Attrs{{"axis", Attr(axes[0])}} : Attrs{{"axes", Attr(axes)}});
  }
}

void rowwise(const Draft& draft) {
  for (const Shape& shape : draft.shapes())
    for (int64_t axis = 0; axis < shape.rank(); ++axis)
      draft.add(std::vector<Type>(draft.info().operands.size(), Type(draft.dtype, shape)),
                {{"axis", Attr(axis)}});
}

void products(const Draft& draft) {
  struct Sizes {
    Shape batch_a, batch_b;
    int64_t m, k, n;
  };
  std::vector<Sizes> sizes = {{{}, {}, kRows, 3, 7}};
  if (draft.small())
    sizes = {{{}, {}, 1, 1, 1},    {{}, {}, 7, 13, 5},   {{}, {}, 1, 4097, 3},
             {{}, {}, 33, 65, 17}, {{}, {}, 3, 0, 5},    {{}, {}, 0, 4, 5},
             {{}, {}, 5, 300, 1},  {{2}, {}, 5, 7, 3},   {{2, 1}, {3}, 4, 5, 6},
             {{0}, {1}, 2, 3, 4},  {{}, {}, 64, 600, 40}};
  DType wide = draft.dtype == DType::F64 ? DType::F64 : DType::F32;
  auto type = [&](const Shape& batch, int64_t rows, int64_t columns, bool transposed) {
    if (transposed) std::swap(rows, columns);
    Shape shape = batch.inserted(batch.rank(), rows);
    return Type(draft.dtype, shape.inserted(shape.rank(), columns));
  };
  for (const Sizes& size : sizes)
    for (int kind = 0; kind < (draft.small() ? 4 : 1); ++kind) {
      bool ta = (kind & 1) != 0, tb = (kind & 2) != 0;
      Type a = type(size.batch_a, size.m, size.k, ta), b = type(size.batch_b, size.k, size.n, tb);
      Attrs attrs{{"transpose_a", Attr(ta)}, {"transpose_b", Attr(tb)}};
      draft.add({a, b}, attrs);
      if (wide != draft.dtype && kind % 3 == 0) draft.add({a, b}, attrs, {a.with(wide)});
    }
}

void scale_updates(const Draft& draft) {
  if (draft.dtype != DType::F32 || !draft.small()) return;
  // Verdicts are drawn below 8, counts below 4.
  for (int64_t interval : {1, 3})
    draft.add({Type(DType::F32, {}), Type(DType::I32, {}), Type(DType::I32, {})},
              {{"backoff", Attr(0.5)},
               {"growth", Attr(2.0)},
               {"floor", Attr(0.125)},
               {"ceiling", Attr(16.0)},
               {"interval", Attr(interval)}},
              {}, "pii", 8);
}

/// w, dw, then what `rest` says: g another of dw's type, s a scalar rate, t a step count; `ok`
/// last.
void updates(const Draft& draft, const Attrs& attrs, const std::string& rest,
             const std::string& domains) {
  for (const Shape& shape : draft.shapes())
    for (bool ok : {false, true}) {
      Type w(draft.dtype, shape), dw = w.with(draft.dtype == DType::F64 ? DType::F64 : DType::F32);
      std::vector<Type> operands = {w, dw};
      for (char letter : rest)
        operands.push_back(letter == 'g'   ? dw
                           : letter == 's' ? Type(DType::F32, {})
                                           : Type(DType::I32, {}));
      if (ok) operands.emplace_back(DType::Bool, Shape());
      draft.add(operands, attrs, {}, "aa" + domains + (ok ? "b" : ""));
    }
}

void plain_updates(const Draft& draft) {
  updates(draft, {{"momentum", Attr(0.0)}, {"nesterov", Attr(false)}}, "s", "u");
  for (bool nesterov : {false, true})
    updates(draft, {{"momentum", Attr(0.75)}, {"nesterov", Attr(nesterov)}}, "sg", "ua");
}

void adaptive_updates(const Draft& draft) { updates(draft, {}, "ggts", "appu"); }

/// By shape rule. Null: no kernel, see no_kernel.
const std::map<std::string_view, Generator>& generators() {
  static const std::map<std::string_view, Generator> table = {
      {"elementwise", elementwise},
      {"declared", sources},
      {"broadcast_to", broadcasts},
      {"reshape", reshapes},
      {"transpose", transposes},
      {"slice", slices},
      {"pad", pads},
      {"reduce", reductions},
      {"argmax", reductions},
      {"matmul", products},
      {"same", rowwise},
      {"cross_entropy", class_losses},
      {"cross_entropy_grad", class_losses},
      {"soft_cross_entropy", class_losses},
      {"soft_cross_entropy_grad", class_losses},
      {"nll", class_losses},
      {"bce", element_losses},
      {"bce_with_logits", element_losses},
      {"kl_div", element_losses},
      {"attention", attentions},
      {"attention_grad", attentions},
      {"random", randoms},
      {"bernoulli", bernoullis},
      {"dropout", dropouts},
      {"categorical", categoricals},
      {"rng_advance", generators_of_random},
      {"scale_update", scale_updates},
      {"sgd", plain_updates},
      {"adam", adaptive_updates},
  };
  return table;
}

bool elementwise_takes(const KernelCase& each) {
  try {
    ir::infer_types({each.kind, each.operands, each.attrs, each.declared, nullptr, {}});
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

std::string KernelCase::text() const {
  std::string out = ir::op_info(kind).name;
  for (const Type& type : operands) out += " " + to_string(type);
  for (const Type& type : declared) out += " -> " + to_string(type);
  if (!attrs.empty() && !attrs.has("value")) out += " " + ir::print(attrs);
  return out;
}

const char* shape_rule(OpKind kind) {
  switch (kind) {
#define ELEMENTWISE(Kind, ...) \
  case OpKind::Kind:           \
    return "elementwise";
#define STRUCTURAL(Kind, name, operands, results, shape, ...) \
  case OpKind::Kind:                                          \
    return #shape;
#define COMPOSITE(Kind, name, operands, results, shape, ...) \
  case OpKind::Kind:                                         \
    return #shape;
#include <mezzo/ir/ops.def>
  }
  return "";
}

std::string no_kernel(OpKind kind) {
  const OpInfo& info = ir::op_info(kind);
  if (info.has(Trait::Terminator)) return "ends a region";
  if (info.has(Trait::Effect)) return "the run itself judges, from flag words";
  std::string_view rule = shape_rule(kind);
  if (rule == "gradient") return "autodiff replaces it";
  if (rule == "custom_gradient") return "autocast drops it";
  if (rule == "declared" && !info.has(Trait::ChosenType)) return "is the kernel";
  return "";
}

std::vector<KernelCase> kernel_cases(OpKind kind, DType dtype, Extent extent) {
  auto generator = generators().find(shape_rule(kind));
  MEZZO_CHECK(generator != generators().end(), std::string("no cases for shape rule '") +
                                                   shape_rule(kind) + "' of '" +
                                                   ir::to_string(kind) + "'");
  std::vector<KernelCase> all, taken;
  generator->second({kind, dtype, extent, all});
  bool whole = true;
  for (KernelCase& each : all) {
    bool empty = std::any_of(each.operands.begin(), each.operands.end(),
                             [](const Type& type) { return type.elements() == 0; });
    if (elementwise_takes(each))
      taken.push_back(std::move(each));
    else
      whole &= empty;  // an extremum of nothing has no value
  }
  // The element type decides, not a slip in a generator.
  MEZZO_CHECK(whole || taken.empty() ||
                  std::all_of(taken.begin(), taken.end(),
                              [](const KernelCase& each) {
                                return !each.operands.empty() && each.operands[0].elements() == 0;
                              }),
              std::string("a case of '") + ir::to_string(kind) + "' is refused");
  return taken;
}

}  // namespace mezzo::test
