// SPDX-License-Identifier: Apache-2.0
// Optimizer kernels: the updates of all parameters in one grid. Segments that compute the same of
// tensors of other sizes share one device function; a table in the text says which block works on
// which segment, how many elements that has and where its pointers stand in the table of
// parameters. So the text grows by a line a parameter, and the machine code not at all.
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/printer.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;

namespace {

/// Lengths that stand for any length in the code that segments share: of indices of 32 and 64 bits.
constexpr int64_t kSomeElements = int64_t{1} << 20, kManyElements = int64_t{1} << 33;
/// Bytes of tables that may lie in constant memory, of which a program has 64 KiB.
constexpr size_t kConstantBytes = 16 << 10;

/// The numbers that a segment brings to the code of its structure, in the order of the canonical
/// kernel's parameters.
struct Segment {
  std::vector<ir::Value> operands;   // of the kernel's region
  std::vector<int> results;          // of the kernel
  std::vector<int64_t> words;        // numbers
  std::vector<const ir::Op*> slots;  // ops of the region
  int64_t elements = 0;
  size_t structure = 0;
};

/// A segment as an elementwise kernel of its own, alike for all segments of its structure: names,
/// words, streams, constants and, where only the position of an element counts, the shape are left
/// out.
class Canonical {
 public:
  Canonical(std::span<const ir::Value> yields, Segment& segment)
      : yields_(yields),
        segment_(segment),
        flat_(yields[0].type().elements() != 1 && ir::is_flat(yields)),
        module_(std::make_unique<ir::Module>("segment")) {
    segment.elements = yields[0].type().elements();
    stand_in_ = segment.elements < (int64_t{1} << 30) ? kSomeElements : kManyElements;
    const std::vector<ir::Op*> ops = ir::ops_behind(yields);
    // A scalar of several axes would turn elements into tensors.
    for (const ir::Op* op : ops)
      for (ir::Value operand : op->operands())
        flat_ &= operand.type().elements() != 1 || operand.type().rank() <= 1;
    ir::Function* function = module_->add_function("f");
    for (const ir::Op* op : ops)
      for (ir::Value operand : op->operands()) add_parameter(*function, operand);
    std::vector<ir::Type> results;
    for (ir::Value value : yields) results.push_back(type_of(value));
    std::vector<ir::Value> inputs = function->parameters();
    ir::Attrs attrs;
    attrs.set("family", "elementwise");
    kernel_ = module_->make_op(OpKind::Kernel, inputs, results, std::move(attrs), {});
    kernel_->set_kernel_name("segment");
    ir::Module::append(function->body(), kernel_);
    fill(ops);
  }

  const ir::Op& kernel() const { return *kernel_; }
  /// The number of elements is that of the segment, not of the code.
  bool flat() const { return flat_; }
  std::string key() const { return ir::print(*kernel_); }

 private:
  ir::Type type_of(ir::Value value) const {
    const ir::Type& type = value.type();
    if (!flat_ || type.elements() == 1) return type;
    // The state of random numbers is no tensor of the space.
    if (!(type.shape == yields_[0].shape())) return type;
    return ir::Type(type.dtype, ir::Shape{stand_in_});
  }

  void add_parameter(ir::Function& function, ir::Value value) {
    if (!value.is_parameter() || map_.contains(value.def())) return;
    map_[value.def()] =
        function.add_parameter(type_of(value), "x" + std::to_string(segment_.operands.size()));
    segment_.operands.push_back(value);
  }

  void fill(const std::vector<ir::Op*>& ops) {
    ir::Region* body = module_->make_body(kernel_);
    for (size_t i = 0; i < segment_.operands.size(); ++i)
      map_[segment_.operands[i].def()] =
          body->add_parameter(type_of(segment_.operands[i]), "x" + std::to_string(i));
    for (const ir::Op* op : ops) {
      std::vector<ir::Value> operands;
      for (ir::Value operand : op->operands()) operands.push_back(map_.at(operand.def()));
      const ir::Type type = type_of(op->result());
      ir::Op* copy = module_->make_op(op->kind(), operands, std::span(&type, 1), attrs_of(*op), {});
      ir::Module::append(*body, copy);
      map_[op->result().def()] = copy->result();
    }
    std::vector<ir::Value> values;
    for (ir::Value value : yields_) values.push_back(map_.at(value.def()));
    ir::Module::append(*body, module_->make_op(OpKind::Yield, values, {}, {}, {}));
  }

  ir::Attrs attrs_of(const ir::Op& op) {
    ir::Attrs attrs = op.attrs();
    for (const char* text : {"reason", "role", "replica", "scope", "policy"}) attrs.erase(text);
    if (const ir::Attr* word = op.attrs().find("word")) {
      auto& words = segment_.words;
      const auto place = std::find(words.begin(), words.end(), word->as<int64_t>());
      attrs.set("word", static_cast<int64_t>(place - words.begin()));
      if (place == words.end()) words.push_back(word->as<int64_t>());
    }
    if (op.kind() == OpKind::Constant || op.attrs().has("stream")) segment_.slots.push_back(&op);
    if (op.attrs().has("stream")) attrs.set("stream", int64_t{0});
    if (op.kind() == OpKind::Constant) {
      const DType dtype = op.result().dtype();
      attrs.set("value", dtype == DType::Bool  ? ir::Attr(false)
                         : ir::is_float(dtype) ? ir::Attr(0.0)
                                               : ir::Attr(int64_t{0}));
    }
    return attrs;
  }

  std::span<const ir::Value> yields_;
  Segment& segment_;
  bool flat_;
  std::unique_ptr<ir::Module> module_;
  ir::Op* kernel_ = nullptr;
  int64_t stand_in_ = 0;
  ir::ValueMap map_;
};

/// Code that segments share.
struct Structure {
  std::string text;  // device functions and `run`
  bool wide = false;
  bool checks_index = false;
};

class OptimizerEmitter {
 public:
  OptimizerEmitter(const ir::Op& kernel, const ir::Plan& plan) : kernel_(kernel), plan_(plan) {
    MEZZO_CHECK(plan.grain % (plan.threads * plan.vector) == 0,
                fmt::format("kernel @{}: blocks of {} threads and {} elements",
                            kernel.kernel_name(), plan.threads, plan.grain));
    find_segments();
    for (const Structure& each : structures_) {
      wide_ |= each.wide;
      checks_index_ |= each.checks_index;
    }
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    source.indirect = true;
    source.checks_index = checks_index_;
    SourceWriter out;
    for (size_t i = 0; i < structures_.size(); ++i) {
      out.line(fmt::format("namespace s{} {{", i));
      out.append(structures_[i].text);
      out.line(fmt::format("}}  // namespace s{}\n", i));
    }
    const int64_t blocks = write_tables(out);
    write_entry(out, name);
    source.text = out.text();
    source.launches.push_back({name, static_cast<int>(plan_.threads), blocks});
    return source;
  }

 private:
  void find_segments() {
    std::map<std::string, size_t> known;
    const std::vector<ir::Value> yields = kernel_.body()->terminator()->operands();
    std::vector<bool> taken(yields.size(), false);
    std::unordered_map<const ir::ValueDef*, std::vector<int>> places;
    for (size_t i = yields.size(); i-- > 0;) places[yields[i].def()].push_back(static_cast<int>(i));
    for (const std::vector<ir::Value>& group : ir::optimizer_segments(kernel_)) {
      Segment segment;
      for (ir::Value value : group) {
        std::vector<int>& left = places.at(value.def());
        segment.results.push_back(left.back());
        left.pop_back();
      }
      const Canonical canonical(group, segment);
      const auto [it, fresh] = known.try_emplace(canonical.key(), structures_.size());
      if (fresh) structures_.push_back(structure_of(canonical));
      segment.structure = it->second;
      segments_.push_back(std::move(segment));
    }
  }

  /// Elements that a thread handles at once: 16 bytes of the narrowest tensor.
  int64_t lanes_of(const ir::Op& kernel) const {
    if (ir::kernel_space(kernel).space.elements() == 1) return 1;
    int64_t narrowest = 8;
    auto add = [&](ir::Value value) {
      if (value.type().elements() != 1) narrowest = std::min(narrowest, byte_size(value.dtype()));
    };
    for (ir::Value value : kernel.operands()) add(value);
    for (ir::Value value : kernel.results()) add(value);
    return std::min(plan_.vector, 16 / std::max<int64_t>(narrowest, 1));
  }

  Structure structure_of(const Canonical& canonical) const {
    const ir::Op& kernel = canonical.kernel();
    const int64_t elements = ir::kernel_space(kernel).space.elements();
    const int64_t lanes = lanes_of(kernel);
    RegionText region(kernel, static_cast<int>(lanes));
    region.enter(2);
    region.eval_scalars();
    const auto type = region.index_type();
    const std::string count = canonical.flat() ? "elements" : region.index_literal(elements);
    region.writer(Level::Thread)
        .line(fmt::format("const {0} end = {1} - first < {2} ? {1} : first + {2};", type, count,
                          region.index_literal(plan_.grain)));
    write_elements(
        region, kernel,
        {.head = fmt::format("for ({} i = first + threadIdx.x * {}; i < end; i += {})", type, lanes,
                             plan_.threads * lanes),
         .elements = count,
         .last = canonical.flat() ? "elements - 1"
                                  : region.index_literal(std::max<int64_t>(elements, 1) - 1),
         .tail = lanes > 1 && (canonical.flat() || elements % lanes != 0)});
    Structure structure;
    structure.wide = region.wide();
    const std::string body = region.take_body();
    structure.checks_index = region.checks_index();
    SourceWriter out;
    out.append(region.functions());
    const std::string text = ir::print(kernel);
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      out.line("// " + text.substr(at, end - at));
      at = end + 1;
    }
    out.line(
        "// `at`: places of the parameters in `table`; `first`: the first element of the block.");
    out.line("DEVICE void run(const u64* table, const u32* at, const u32 block,");
    out.line(fmt::format("                const {} elements) {{", type));
    out.line(fmt::format("  const {0} first = ({0})block * {1};", type, plan_.grain));
    int place = 0;
    for (const RegionText::Parameter& parameter : region.parameters())
      out.line(fmt::format("  {} {} = {};", constant(parameter.type), parameter.name,
                           entry_as(parameter.type, place++)));
    out.append(body);
    out.line("}");
    structure.text = out.text();
    return structure;
  }

  static std::string constant(const std::string& type) {
    return type.ends_with('*') || type.ends_with("__restrict__") ? type : "const " + type;
  }
  /// An entry of the table as a parameter of that type.
  static std::string entry_as(const std::string& type, int place) {
    const std::string bits = fmt::format("table[at[{}]]", place);
    if (type == "float") return fmt::format("__uint_as_float((u32){})", bits);
    if (type == "double") return fmt::format("__longlong_as_double((i64){})", bits);
    const size_t star = type.find('*');
    return star == std::string::npos
               ? fmt::format("({}){}", type, bits)
               : fmt::format("global<{}>(table, {})", type.substr(0, star), bits);
  }

  /// The number of blocks.
  int64_t write_tables(SourceWriter& out) {
    std::unordered_map<const ir::ValueDef*, int> operand_places;
    for (int i = 0; i < kernel_.num_operands(); ++i)
      operand_places[kernel_.body()->parameter(i).def()] = i;
    std::unordered_map<int64_t, int> word_places;
    int next = kernel_.num_operands() + kernel_.num_results();
    for (int64_t word : ir::kernel_words(kernel_)) word_places[word] = next++;
    const int range = next;
    if (checks_index_) ++next;
    std::unordered_map<const ir::Op*, int> slot_places;
    for (const ir::Op* op : ir::kernel_slots(kernel_)) slot_places[op] = next++;

    std::string segments, places;
    int64_t block = 0;
    size_t entries = 0;
    for (const Segment& segment : segments_) {
      segments += fmt::format("    {{{}, {}, {}, {}}},\n", block, segment.structure, entries,
                              segment.elements);
      block += (segment.elements + plan_.grain - 1) / plan_.grain;
      std::vector<int> list;
      for (ir::Value value : segment.operands) list.push_back(operand_places.at(value.def()));
      for (int result : segment.results) list.push_back(kernel_.num_operands() + result);
      for (int64_t word : segment.words) list.push_back(word_places.at(word));
      if (structures_[segment.structure].checks_index) list.push_back(range);
      for (const ir::Op* op : segment.slots) list.push_back(slot_places.at(op));
      entries += list.size();
      places += fmt::format("    {},\n", fmt::join(list, ", "));
    }
    if (places.empty() || entries == 0) places = "    0\n";
    const bool constant = segments_.size() * 24 + entries * 4 <= kConstantBytes;
    const char* memory = constant ? "__constant__" : "__device__ const";
    out.line("// First block, structure, first of its places, elements.");
    out.line("struct Segment {");
    out.line(fmt::format("  u32 block, structure, places;\n  {} elements;", wide_ ? "u64" : "u32"));
    out.line("};");
    out.line(fmt::format("static {} Segment segments[] = {{", memory));
    out.append(segments);
    out.line("};");
    out.line("// Places in the table of parameters.");
    out.line(fmt::format("static {} u32 places[] = {{", memory));
    out.append(places);
    out.line("};\n");
    return block;
  }

  void write_entry(SourceWriter& out, const std::string& name) const {
    out.line(entry_head(name, plan_.threads) + "(const u64* table) {");
    out.line("  // The last segment that begins at this block or before.");
    out.line(fmt::format("  u32 low = 0, high = {};", segments_.size()));
    out.line("  while (high - low > 1) {");
    out.line("    const u32 middle = (low + high) / 2;");
    out.line("    if (segments[middle].block <= blockIdx.x)");
    out.line("      low = middle;");
    out.line("    else");
    out.line("      high = middle;");
    out.line("  }");
    out.line("  const u32 block = blockIdx.x - segments[low].block;");
    out.line("  const u32* at = places + segments[low].places;");
    if (structures_.size() == 1) {
      out.line("  s0::run(table, at, block, segments[low].elements);");
    } else {
      out.line("  switch (segments[low].structure) {");
      for (size_t i = 0; i < structures_.size(); ++i)
        out.line(fmt::format(
            "    case {0}:\n      s{0}::run(table, at, block, segments[low].elements);\n"
            "      break;",
            i));
      out.line("  }");
    }
    out.line("}");
  }

  const ir::Op& kernel_;
  const ir::Plan& plan_;
  std::vector<Segment> segments_;
  std::vector<Structure> structures_;
  bool wide_ = false, checks_index_ = false;
};

}  // namespace

CudaSource emit_cuda_optimizer(const ir::Op& kernel, const ir::Plan& plan,
                               const std::string& name) {
  return OptimizerEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
