// SPDX-License-Identifier: Apache-2.0
// The printer: one walk to name values, one to write lines. Both are linear in the text.
#include <mezzo/ir/printer.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/lexer.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <unordered_set>

namespace mezzo::ir {

namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

/// `name` as an id: other characters become '_'.
std::string as_id(std::string_view name) {
  if (all_digits(name)) return std::string(name);
  std::string out = name.empty() || !is_id_start(name[0]) ? "_" : "";
  for (char c : name) out += is_id_rest(c) ? c : '_';
  return out;
}

/// Gives names within one region.
class Namer {
 public:
  std::string unique(std::string_view wanted) {
    std::string name = as_id(wanted);
    if (taken_.insert(name).second) return name;
    int& count = suffixes_[name];
    std::string suffixed;
    do suffixed = name + "_" + std::to_string(++count);
    while (!taken_.insert(suffixed).second);
    return suffixed;
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> suffixes_;
};

}  // namespace

ValueNames::ValueNames(const Function& function) {
  Namer outer;
  int64_t number = 0;
  // Names of digits alone are numbers of ours, except on parameters, which others find by name.
  std::unordered_set<std::string_view> reserved;
  for (Value parameter : function.parameters())
    if (all_digits(parameter.name())) reserved.insert(parameter.name());
  auto define = [&](Namer& namer, Value value, bool keep_digits) {
    std::string name;
    if (!value.name().empty() && (keep_digits || !all_digits(value.name()))) {
      name = namer.unique(value.name());
    } else {
      do name = std::to_string(number++);
      while (reserved.count(name));
    }
    std::string& entry = names_[value.def()];
    entry = "%" + name;
    if (&namer == &outer) outer_.emplace(entry, value);
  };
  for (Value parameter : function.parameters()) define(outer, parameter, true);
  for (const Op& op : function.body()) {
    for (Value result : op.results()) define(outer, result, false);
    if (const Region* body = op.body()) {
      Namer inner;
      for (Value parameter : body->parameters()) define(inner, parameter, false);
      for (const Op& nested : *body)
        for (Value result : nested.results()) define(inner, result, false);
    }
  }
}

const std::string& ValueNames::operator()(const ValueDef* value) const {
  // Never freed: the destructor of a static of the program may print.
  static const auto* gone = new std::string("%<gone>");
  auto it = names_.find(value);
  return it == names_.end() ? *gone : it->second;
}

Value ValueNames::find(std::string_view name) const {
  auto it = outer_.find(std::string(name));
  return it == outer_.end() ? Value() : it->second;
}

namespace {

class Printer {
 public:
  Printer(PrintOptions options, const ValueNames* names) : options_(options), names_(names) {}

  void module(const Module& module) {
    Attrs attrs = module.attrs();
    attrs.set("stage", to_string(module.stage()));
    out_ += "module @" + as_id(module.name()) + " attributes ";
    dictionary(attrs);
    out_ += " {\n";
    for (const auto& function : module.functions()) {
      ValueNames names(*function);
      names_ = &names;
      this->function(*function, 1);
    }
    out_ += "}\n";
  }

  void function(const Function& function, int depth) {
    indent(depth);
    out_ += "func @" + as_id(function.name()) + "(";
    for (int i = 0; i < function.num_parameters(); ++i) {
      if (i) out_ += ", ";
      value(function.parameter(i));
      out_ += ": ";
      type(function.parameter(i).type());
      trailing(function.parameter_attrs(i));
    }
    out_ += ") -> ";
    std::vector<Value> results = function.results();
    if (results.size() != 1) out_ += '(';
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      if (i) out_ += ", ";
      type(results[static_cast<size_t>(i)].type());
      if (i < function.num_results()) trailing(function.result_attrs(i));
    }
    if (results.size() != 1) out_ += ')';
    if (!function.attrs().empty()) {
      out_ += " attributes ";
      dictionary(function.attrs());
    }
    region(function.body(), depth);
    out_ += "\n";
  }

  void op(const Op& op, int depth) {
    indent(depth);
    for (int i = 0; i < op.num_results(); ++i) {
      if (i) out_ += ", ";
      value(op.result(i));
    }
    if (op.num_results()) out_ += " = ";
    out_ += op.info().name;
    op.kind() == OpKind::Kernel ? bindings(op) : operands(op);
    op_attributes(op);
    if (op.has_plan()) {
      out_ += " plan ";
      dictionary(op.plan());
    }
    signature(op);
    if (op.body()) region(*op.body(), depth);
    if (options_.locations) location(op);
  }

  void dictionary(const Attrs& attrs, const Op* op = nullptr) {
    out_ += '{';
    bool first = true;
    for (const auto& [name, attr] : attrs) {
      if (!first) out_ += ", ";
      first = false;
      out_ += name;
      out_ += " = ";
      if (op && op->kind() == OpKind::Constant && std::string_view(name) == "value")
        constant(op->result().dtype(), attr);
      else
        attribute(attr);
    }
    out_ += '}';
  }

  std::string take() { return std::move(out_); }

 private:
  void indent(int depth) { out_.append(static_cast<size_t>(2 * depth), ' '); }
  void value(Value value) { out_ += (*names_)(value); }
  void type(const Type& type) { out_ += to_string(type); }

  void trailing(const Attrs& attrs) {
    if (attrs.empty()) return;
    out_ += ' ';
    dictionary(attrs);
  }

  void region(const Region& region, int depth) {
    out_ += " {\n";
    for (const Op& inner : region) {
      op(inner, depth + 1);
      out_ += '\n';
    }
    indent(depth);
    out_ += '}';
  }

  void operands(const Op& op) {
    for (int i = 0; i < op.num_operands(); ++i) {
      out_ += i ? ", " : " ";
      value(op.operand(i));
    }
  }

  void bindings(const Op& op) {
    out_ += " @" + as_id(op.kernel_name()) + " (";
    for (int i = 0; i < op.num_operands(); ++i) {
      if (i) out_ += ", ";
      if (op.body() && i < op.body()->num_parameters()) {
        value(op.body()->parameter(i));
        out_ += " = ";
      }
      value(op.operand(i));
    }
    out_ += ')';
  }

  /// Defaults are not printed; the accumulator of a product is, where it differs from the operands.
  void op_attributes(const Op& op) {
    bool acc_shown = has_acc(op.kind()) && op.num_operands() && !op.attrs().has("acc") &&
                     default_acc(op.operand(0).dtype()) != op.operand(0).dtype();
    if (op.attrs().empty() && !acc_shown) return;
    Attrs shown;
    for (const auto& [name, attr] : op.attrs()) {
      const AttrInfo* info = op.info().attribute(name);
      if (!info || !info->fallback || !(*info->fallback == attr)) shown.set(name, attr);
    }
    if (acc_shown) shown.set("acc", default_acc(op.operand(0).dtype()));
    if (shown.empty()) return;
    out_ += ' ';
    dictionary(shown, &op);
  }

  void types(const std::vector<Value>& values) {
    if (values.size() != 1) out_ += '(';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) out_ += ", ";
      type(values[i].type());
    }
    if (values.size() != 1) out_ += ')';
  }

  void signature(const Op& op) {
    std::vector<Value> operands = op.operands(), results = op.results();
    out_ += " : ";
    if (results.empty()) return types(operands);
    auto same = [&](Value value) { return value.type() == results[0].type(); };
    if (std::all_of(operands.begin(), operands.end(), same) &&
        std::all_of(results.begin(), results.end(), same))
      return type(results[0].type());
    types(operands);
    out_ += " -> ";
    types(results);
  }

  void location(const Op& op) {
    Location place = op.location().known() ? op.location() : op.origin().location;
    if (!place.known()) return;
    out_ += " loc(";
    string(place.file);
    out_ += ":" + std::to_string(place.line);
    const char* origin = op.origin().name;
    if (origin && std::string_view(origin) != op.info().name) out_ += " from " + as_id(origin);
    out_ += ')';
  }

  // --- attributes

  void attribute(const Attr& attr) {
    std::visit([&](const auto& data) { datum(data); }, attr.data());
  }

  void datum(int64_t value) { out_ += std::to_string(value); }
  void datum(double value) {
    if (!std::isfinite(value)) return datum(Bits{std::bit_cast<uint64_t>(value), 16});
    char buffer[32];
    auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
    std::string_view text(buffer, static_cast<size_t>(end - buffer));
    out_ += text;
    if (text.find_first_of(".e") == std::string_view::npos) out_ += ".0";
  }
  void datum(bool value) { out_ += value ? "true" : "false"; }
  void datum(const std::string& value) { string(value); }
  void datum(DType value) { out_ += to_string(value); }
  void datum(const Bits& value) {
    out_ += "0x";
    for (int digit = value.digits - 1; digit >= 0; --digit)
      out_ += "0123456789ABCDEF"[value.bits >> (4 * digit) & 0xF];
  }
  void datum(const ValueRef& value) { out_ += names_ ? (*names_)(value.value) : "%<gone>"; }
  void datum(const Symbol& value) { out_ += "@" + as_id(value.name); }
  void datum(const Resource& value) {
    out_ += "resource(";
    string(value.name);
    out_ += ')';
  }
  void datum(const AttrList& list) {
    out_ += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out_ += ", ";
      attribute(list[i]);
    }
    out_ += ']';
  }

  /// Data of a constant: the shortest decimals that read back to the same bits of its type.
  void constant(DType dtype, const Attr& attr) {
    if (attr.is<AttrList>()) {
      out_ += '[';
      const AttrList& list = attr.as<AttrList>();
      for (size_t i = 0; i < list.size(); ++i) {
        if (i) out_ += ", ";
        constant(dtype, list[i]);
      }
      out_ += ']';
      return;
    }
    if (!is_float(dtype) || !attr.is<double>()) return attribute(attr);
    Attr rounded = scalar_attr(dtype, attr.as<double>());
    if (!rounded.is<double>()) return attribute(rounded);
    datum(shortest(dtype, rounded.as<double>()));
  }

  /// The f64 with the fewest decimal digits among those that round to `value` of type `dtype`.
  static double shortest(DType dtype, double value) {
    if (dtype == DType::F64) return value;
    constexpr int kEnough = 9;  // digits that tell any two f32 apart
    for (int digits = 1; digits <= kEnough; ++digits) {
      char buffer[32];
      char* end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                std::chars_format::scientific, digits - 1)
                      .ptr;
      double read = 0;
      std::from_chars(buffer, end, read);
      if (std::bit_cast<uint64_t>(round_to(dtype, read)) == std::bit_cast<uint64_t>(value))
        return read;
    }
    return value;
  }

  void string(std::string_view text) {
    out_ += '"';
    for (char c : text) {
      constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
      if (size_t which = kMeanings.find(c); which != std::string_view::npos) {
        out_ += '\\';
        out_ += kLetters[which];
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out_ += "\\u00";
        out_ += "0123456789ABCDEF"[c >> 4];
        out_ += "0123456789ABCDEF"[c & 0xF];
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  PrintOptions options_;
  const ValueNames* names_;
  std::string out_;
};

}  // namespace

std::string print(const Module& module, PrintOptions options) {
  Printer printer(options, nullptr);
  printer.module(module);
  return printer.take();
}

std::string print(const Function& function, PrintOptions options) {
  ValueNames names(function);
  Printer printer(options, &names);
  printer.function(function, 0);
  return printer.take();
}

std::string print(const Op& op, PrintOptions options) {
  MEZZO_CHECK(op.function(), std::string("printed '") + op.info().name + "' outside a function");
  return print(op, ValueNames(*op.function()), options);
}

std::string print(const Op& op, const ValueNames& names, PrintOptions options) {
  Printer printer(options, &names);
  printer.op(op, 0);
  return printer.take();
}

std::string print(const Attrs& attrs) {
  if (attrs.empty()) return "";
  Printer printer({}, nullptr);
  printer.dictionary(attrs);
  return printer.take();
}

}  // namespace mezzo::ir
