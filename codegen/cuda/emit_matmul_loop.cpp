// SPDX-License-Identifier: Apache-2.0
// The loops of a matrix product over the tiles along k. Tensor cores: a ring of stages in shared
// memory, filled as far ahead as there are stages; fragments of the next step are loaded while
// those of this one are multiplied, so that one barrier a tile is enough. Multiply-adds: two
// stages, the next tile on its way in registers.
#include <mezzo/codegen/cuda/emit_matmul.h>

#include <fmt/format.h>

namespace mezzo::codegen {

namespace {

/// Where the fragments of a lane lie in a tile. `rows`: 16 rows of the tile of the product one
/// after another for A, 8 and 8 for B.
void fragment_places(MatmulText& text, const MatmulOperand& operand, const std::string& name,
                     const std::string& warp_place, int64_t fragments) {
  SourceWriter& out = text.out();
  const bool a = name == "a";
  const int64_t bytes = operand.row_bytes();
  std::string row, chunk;
  if (operand.k_contiguous()) {
    row = warp_place + (a ? " + lane % 16" : " + lane % 8 + lane / 16 * 8");
    chunk = a ? "lane / 16" : "lane / 8 % 2";
  } else {
    row = a ? "lane % 8 + lane / 16 * 8" : "lane % 16";
    chunk = warp_place + (a ? " / 8 + lane / 8 % 2" : " / 8 + lane / 16");
  }
  out.line(fmt::format("const u32 {}_line = {};", name, row));
  out.line(fmt::format("const u32 {0}_first = {0}_line * {1} + ({2} ^ {3}) * 16 + {4};", name,
                       bytes, operand.k_contiguous() ? chunk : "(" + chunk + ")",
                       MatmulOperand::exchange(name + "_line", bytes), operand.first_byte()));
  // Steps of 16 along k, or fragments of 16 rows or columns, are two chunks of a row apart; the
  // other way they are rows apart, which no exchange tells from each other.
  const int64_t places = operand.k_contiguous() ? text.plan.spec.kc / 16 : fragments;
  std::string list;
  for (int64_t i = 0; i < places; ++i)
    list += fmt::format("{}{}_first{}", i ? ", " : "", name,
                        i ? fmt::format(" ^ {}", i * 32) : std::string());
  out.line(fmt::format("const u32 {}_places[{}] = {{{}}};", name, places, list));
}

void load_fragments(SourceWriter& out, const MatmulOperand& operand, const std::string& name,
                    int64_t fragments) {
  const int64_t next = 16 * operand.row_bytes();
  out.line("#pragma unroll");
  out.line(fmt::format(
      "for (u32 i = 0; i < {0}; ++i) {1}({2}[to][i], at + {2}_places[{3}] + {4} * "
      "{5});",
      fragments, operand.k_contiguous() ? "load_matrices" : "load_transposed", name,
      operand.k_contiguous() ? "step" : "i", operand.k_contiguous() ? "i" : "step", next));
}

}  // namespace

void emit_mma_loop(MatmulText& text, MatmulOperand& a, MatmulOperand& b) {
  SourceWriter& out = text.out();
  const ir::CudaMatmul& plan = text.plan;
  const ir::MatmulSpec& spec = plan.spec;
  const int64_t m_fragments = spec.mr / 16, n_fragments = spec.nr / 16, steps = spec.kc / 16;
  out.line(fmt::format("float sums[{}][{}][4] = {{}};", m_fragments, 2 * n_fragments));
  if (spec.k == 0) return;
  const int64_t stage = text.stage_bytes(), ahead = plan.stages - 1;
  const bool copies = a.asynchronous() || b.asynchronous();
  out.line("const u32 shared = shared_address(dynamic_shared);");
  out.line("u32 write = shared, read = shared;");
  a.declare();
  b.declare();
  const std::string filled = [&] {
    std::string calls;
    for (const std::string& call : {a.store(), b.store()})
      if (!call.empty()) calls += (calls.empty() ? "" : " ") + call;
    return calls;
  }();
  auto fill = [&](const std::string& condition, const std::string& calls) {
    if (calls.empty()) return;
    out.line(condition.empty() ? calls : fmt::format("if ({}) {{ {} }}", condition, calls));
  };
  const std::string fetches = a.fetch() + " " + b.fetch();

  // The first stages.
  out.line("#pragma unroll 1");
  out.open(fmt::format("for (u32 t = 0; t < {}; ++t)", ahead));
  fill(spec.slices > 1 && ahead > 1 ? "t < tiles" : "",
       fetches + (filled.empty() ? "" : " " + filled));
  if (copies) out.line("commit_copies();");
  out.line(fmt::format("write += {};", stage));
  out.close();
  if (copies) out.line(fmt::format("wait_copies<{}>();", ahead - 1));
  out.line("__syncthreads();");

  fragment_places(text, a, "a", "warp_row", m_fragments);
  fragment_places(text, b, "b", "warp_column", n_fragments);
  out.line(fmt::format("u32 a[2][{}][4], b[2][{}][4];", m_fragments, n_fragments));
  out.open("auto load_fragments = [&](const u32 to, const u32 step, const u32 at)");
  load_fragments(out, a, "a", m_fragments);
  load_fragments(out, b, "b", n_fragments);
  out.close(";");
  out.line("load_fragments(0, 0, read);");
  const int64_t fewest = plan.k_tiles() - (spec.slices - 1) * spec.slice_blocks;  // of a slice
  out.line("#pragma unroll 1");
  out.open("for (u32 t = 0; t < tiles; ++t)");
  out.line(fmt::format("const bool more = t + {} < tiles;", ahead));
  // Step by step in the text: registers of fragments must have fixed numbers.
  for (int64_t step = 0; step < steps; ++step) {
    if (step == steps - 1) {
      // All warps have the fragments of this tile: the stage before it is free, the next is
      // complete.
      fill("more", filled);
      if (copies) {
        out.line("commit_copies();");
        out.line(fmt::format("wait_copies<{}>();", ahead - 1));
      }
      out.line("__syncthreads();");
      const std::string end = fmt::format("shared + {}", plan.stages * stage);
      out.line(fmt::format("write = write + {0} == {1} ? shared : write + {0};", stage, end));
      // Behind the last tile the fragments of any other are loaded once more, its own where there
      // are not as many as stages.
      out.line(fmt::format("{2}read = read + {0} == {1} ? shared : read + {0};", stage, end,
                           fewest < plan.stages ? "if (t + 1 < tiles) " : ""));
    }
    out.line(fmt::format("load_fragments({}, {}, read);", (step + 1) % 2, (step + 1) % steps));
    if (step == 0) fill("more", fetches);
    out.line(fmt::format("multiply_tiles<{}>(sums, a[{}], b[{}]);", storage_type_name(spec.a_type),
                         step % 2, step % 2));
  }
  out.close();
  out.line("__syncthreads();");
}

void emit_fma_loop(MatmulText& text, MatmulOperand& a, MatmulOperand& b) {
  SourceWriter& out = text.out();
  const ir::CudaMatmul& plan = text.plan;
  const ir::MatmulSpec& spec = plan.spec;
  const int64_t side = spec.mr / 4;  // results of a thread along either axis
  const std::string_view type = text.accumulator();
  out.line(fmt::format("{} sums[{}][{}] = {{}};", type, side, side));
  if (spec.k == 0) return;
  const bool runs = spec.run_blocks > 0 && spec.run_blocks < spec.slice_blocks;
  const int64_t stage = text.stage_bytes();
  if (runs) out.line(fmt::format("{} totals[{}][{}] = {{}};", type, side, side));
  out.line("char* const shared = reinterpret_cast<char*>(dynamic_shared);");
  out.line("u32 write = 0, read = 0;");
  a.declare();
  b.declare();
  const std::string fetches = a.fetch() + " " + b.fetch(), stores = a.store() + " " + b.store();
  out.line(fetches);
  out.line(stores);
  out.line("__syncthreads();");
  if (runs) out.line("u32 in_run = 0;");
  out.line("#pragma unroll 1");
  out.open("for (u32 t = 0; t < tiles; ++t)");
  out.line("const bool more = t + 1 < tiles;");
  out.line(fmt::format("write = {} - read;", stage));
  out.line(fmt::format("if (more) {{ {} }}", fetches));
  auto tile = [&](const char* name, const MatmulOperand& operand, const std::string& first) {
    out.line(
        fmt::format("const {0}* const {1}_tile = reinterpret_cast<const {0}*>(shared + read + "
                    "{2}) + {3};",
                    type, name, operand.first_byte(), first));
  };
  tile("a", a, "warp_row + lane / 8 * 4");
  tile("b", b, "warp_column + lane % 8 * 4");
  out.line("#pragma unroll");
  out.open(fmt::format("for (u32 k = 0; k < {}; ++k)", spec.kc));
  out.line(fmt::format("{0} a[{1}], b[{1}];", type, side));
  out.line("#pragma unroll");
  out.open(fmt::format("for (u32 i = 0; i < {}; i += 4)", side));
  out.line(fmt::format("load_four(a + i, a_tile + k * {} + i * 4);", spec.mc + ir::kFmaPad));
  out.line(fmt::format("load_four(b + i, b_tile + k * {} + i * 8);", spec.nc + ir::kFmaPad));
  out.close();
  out.line("multiply_outer(sums, a, b);");
  out.close();
  if (runs) {
    out.open(fmt::format("if (++in_run == {})", spec.run_blocks));
    out.line("add_sums(totals, sums);");
    out.line("in_run = 0;");
    out.close();
  }
  out.line(fmt::format("if (more) {{ {} }}", stores));
  out.line("__syncthreads();");
  out.line("read = write;");
  out.close();
  if (runs) {
    out.line("add_sums(totals, sums);");
    out.line("add_sums(sums, totals);");
  }
}

}  // namespace mezzo::codegen
