// SPDX-License-Identifier: Apache-2.0
// Blocks follow the usual rule: a panel of B stays in L1, a block of A in a quarter of L2, the
// tiles of C in half of it. Sums keep |error| <= u·(256 + log2 k)·sum|a·b|: a block is at most 256
// steps, shorter where many blocks follow.
#include <mezzo/ir/matmul_plan.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/sizes.h>

#include <algorithm>
#include <cmath>

namespace mezzo::ir {
namespace {

/// Enough tasks that any likely number of threads stays busy, each worth waking a thread for.
constexpr int64_t kWantedTasks = 16;
constexpr int64_t kMultipliesPerTask = 1 << 19;
constexpr int64_t kMaxSlices = 16;
/// So many steps that as many slices as there may be are long.
constexpr int64_t kLongK = 16384;
constexpr int64_t kMaxBlock = 256;

int64_t round_up(int64_t x, int64_t y) { return ceil_div(x, y) * y; }

int64_t compute_bytes(const MatmulSpec& spec) { return spec.acc == DType::F64 ? 8 : 4; }
/// Bytes of a packed element.
int64_t packed_bytes(const MatmulSpec& spec) { return spec.bf16_pairs ? 2 : compute_bytes(spec); }

void choose_tile(MatmulSpec& spec, const Target& target) {
  const int lanes = target.lanes(static_cast<int>(compute_bytes(spec)));
  const int rows = target.vector_registers >= 32 ? 14 : target.fma ? 6 : 4;
  const int64_t m = std::max<int64_t>(spec.m, 1);
  // As few panels as the tallest tile needs, of equal height: 8 rows are 4 + 4, not 6 + 2.
  spec.mr = static_cast<int>(ceil_div(m, ceil_div(m, rows)));
  spec.nr = spec.n <= lanes ? lanes : 2 * lanes;
}

/// Block length, blocks a slice and run length for `slices` slices; false when the bound cannot be
/// kept.
bool choose_k_blocks(MatmulSpec& spec, int64_t slices) {
  const int64_t length = ceil_div(spec.k, slices);
  const int64_t allowed = kMaxBlock + static_cast<int64_t>(std::log2(std::max<int64_t>(spec.k, 2)));
  // Packing transposes 8 steps (or pairs of steps) at a time.
  const int64_t unit = spec.bf16_pairs ? 16 : 8;
  for (int64_t longest = kMaxBlock; longest >= kMaxBlock / 4; longest -= unit) {
    const int64_t blocks = std::max<int64_t>(1, ceil_div(length, longest));
    spec.kc = std::max(unit, round_up(ceil_div(length, blocks), unit));
    spec.slice_blocks = std::max<int64_t>(1, ceil_div(length, spec.kc));
    spec.slices = std::max<int64_t>(1, ceil_div(spec.k, spec.kc * spec.slice_blocks));
    spec.run_blocks = 0;
    if (rounding_steps(spec) <= allowed) return true;
    spec.run_blocks = static_cast<int64_t>(std::ceil(std::sqrt(spec.slice_blocks)));
    if (rounding_steps(spec) <= allowed) return true;
  }
  return false;
}

}  // namespace

MatmulSpec plan_matmul(MatmulSpec spec, const Target& target, bool costly_b) {
  MEZZO_CHECK(spec.m >= 0 && spec.n >= 0 && spec.k >= 0 && spec.batch >= 0,
              "a matrix product with a negative size");
  spec.bf16_pairs = target.avx512bf16 && spec.acc == DType::F32 && spec.a_type == DType::BF16 &&
                    spec.b_type == DType::BF16;
  choose_tile(spec, target);
  // Beyond some 100,000 steps of k one slice has too many blocks for the bound.
  int64_t slices = 1;
  while (!choose_k_blocks(spec, slices) && slices < kMaxSlices) ++slices;

  const int64_t element = compute_bytes(spec);
  const int64_t m = std::max<int64_t>(spec.m, 1), n = std::max<int64_t>(spec.n, 1);
  const int64_t batch = std::max<int64_t>(spec.batch, 1);
  const int64_t tallest =
      std::max<int64_t>(spec.mr, target.l2_bytes / 4 / (spec.kc * packed_bytes(spec)));
  int64_t m_tiles = ceil_div(m, tallest);
  auto set_rows = [&] { spec.mc = round_up(ceil_div(m, m_tiles), spec.mr); };
  set_rows();
  const int64_t widest = std::clamp<int64_t>(target.l2_bytes / 2 / (spec.mc * element), 4 * spec.nr,
                                             spec.blocked_k() ? 1024 : 4096);
  int64_t n_tiles = ceil_div(n, widest);

  // Too few tasks for the work there is: first shorter blocks of rows, then narrower blocks of
  // columns, then slices; slices alone where k is long, so that no block is packed twice (the
  // gradient of a convolution's weights).
  const int64_t work = saturated_product(batch * m * n, std::max<int64_t>(spec.k, 1));
  const int64_t wanted = std::min(kWantedTasks, std::max<int64_t>(1, work / kMultipliesPerTask));
  const bool slices_alone = spec.k >= kLongK;
  if (batch * m_tiles * n_tiles < wanted && !slices_alone) {
    m_tiles =
        std::max(m_tiles, std::min(ceil_div(wanted, batch * n_tiles), ceil_div(m, 2 * spec.mr)));
    set_rows();
    m_tiles = ceil_div(m, spec.mc);
  }
  // Every block of columns packs A again: half the tasks are enough to leave them wide.
  if (batch * m_tiles * n_tiles * 2 < wanted && !slices_alone) {
    n_tiles =
        std::max(n_tiles, std::min(ceil_div(wanted, batch * m_tiles), ceil_div(n, 8 * spec.nr)));
  }
  spec.nc = round_up(ceil_div(n, n_tiles), spec.nr);
  n_tiles = ceil_div(n, spec.nc);
  const int64_t tasks = batch * m_tiles * n_tiles;
  if (tasks < wanted && spec.k >= 4 * kMaxBlock) {
    choose_k_blocks(spec, std::max(spec.slices, std::min({kMaxSlices, ceil_div(wanted, tasks),
                                                          spec.k / (2 * kMaxBlock)})));
  }

  const bool convert_b = costly_b || spec.trans_b || spec.b_type != spec.acc;
  // A launch costs a few microseconds; what packing again costs must be more.
  const int64_t packed_again = saturated_product(saturated_product(m_tiles - 1, n * spec.k), batch);
  spec.prepack_b = saturated_product(packed_again, convert_b ? 3 : 1) >= (1 << 16) &&
                   m_tiles >= (convert_b ? 2 : 3);
  return spec;
}

int64_t rounding_steps(const MatmulSpec& spec) {
  const int64_t run = spec.two_level() ? spec.run_blocks : spec.slice_blocks;
  return std::min(spec.kc, spec.k) + (run - 1) + (ceil_div(spec.slice_blocks, run) - 1) +
         (spec.slices - 1);
}

MatmulScratch matmul_scratch(const MatmulSpec& spec) {
  MatmulScratch place;
  // Packing writes whole vectors, whose last lanes may lie behind the panel.
  const int64_t overhang = 64;
  place.a_stride = round_up(spec.mr * spec.kc * packed_bytes(spec), 64) + overhang;
  place.b_panel = ceil_div(spec.mc, spec.mr) * place.a_stride;
  place.tiles = place.b_panel;
  if (!spec.prepack_b) place.tiles += round_up(spec.nr * spec.kc * packed_bytes(spec), 64);
  const int64_t tile = int64_t{spec.mr} * spec.nr * compute_bytes(spec);
  const int64_t tiles = spec.blocked_k() ? spec.mc * spec.nc * compute_bytes(spec) : tile;
  place.totals = place.tiles + round_up(tiles, 64);
  place.end = place.totals + (spec.two_level() ? round_up(tiles, 64) : 0);
  return place;
}

int64_t scratch_bytes(const MatmulSpec& spec) { return matmul_scratch(spec).end; }

int64_t packed_b_bytes(const MatmulSpec& spec) {
  if (!spec.prepack_b) return 0;
  return round_up((spec.shared_b ? 1 : spec.batch) * spec.k_blocks() * spec.panels() * spec.kc *
                      spec.nr * packed_bytes(spec),
                  64);
}

int64_t workspace_bytes(const MatmulSpec& spec) {
  int64_t bytes = packed_b_bytes(spec);
  if (spec.slices > 1)
    bytes = saturated_sum(
        bytes, saturated_product(spec.slices * compute_bytes(spec), spec.batch * spec.m * spec.n));
  return bytes;
}

int64_t reduce_rows(const MatmulSpec& spec) {
  return std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, spec.n * spec.slices));
}

std::string to_string(const MatmulSpec& spec) {
  std::string text = std::to_string(spec.mr) + "x" + std::to_string(spec.nr) + " block " +
                     std::to_string(spec.mc) + "x" + std::to_string(spec.nc) + "x" +
                     std::to_string(spec.kc) + " blocks " + std::to_string(spec.slice_blocks) +
                     " slices " + std::to_string(spec.slices);
  if (spec.two_level()) text += " run " + std::to_string(spec.run_blocks);
  if (spec.prepack_b) text += " prepacked";
  if (spec.bf16_pairs) text += " pairs";
  return text;
}

MatmulSpec matmul_spec(const Op& kernel) {
  const Op* product = nullptr;
  for (Op& op : *kernel.body())
    if (op.kind() == OpKind::Matmul) product = &op;
  MEZZO_CHECK(product, "kernel @" + kernel.kernel_name() + " has no matmul");
  const Type &a = product->operand(0).type(), &b = product->operand(1).type(),
             &c = product->result().type();
  MatmulSpec spec;
  spec.trans_a = product->bool_attr("transpose_a");
  spec.trans_b = product->bool_attr("transpose_b");
  spec.m = c.shape[c.rank() - 2];
  spec.n = c.shape[c.rank() - 1];
  spec.k = a.shape[a.rank() - (spec.trans_a ? 2 : 1)];
  for (int64_t dim : c.shape.dims().first(static_cast<size_t>(c.rank() - 2))) spec.batch *= dim;
  auto one_matrix = [](const Type& type) {
    return type.elements() == type.shape[type.rank() - 1] * type.shape[type.rank() - 2];
  };
  spec.shared_a = one_matrix(a) && spec.batch != 1;
  spec.shared_b = one_matrix(b) && spec.batch != 1;
  spec.a_type = a.dtype;
  spec.b_type = b.dtype;
  spec.c_type = c.dtype;
  spec.acc = a.dtype == DType::F64 ? DType::F64 : DType::F32;
  if (!kernel.has_plan()) return spec;
  Plan plan = Plan::from(kernel.plan());
  spec.mr = static_cast<int>(plan.mr);
  spec.nr = static_cast<int>(plan.nr);
  spec.mc = plan.mc;
  spec.nc = plan.nc;
  spec.kc = plan.kc;
  spec.slices = plan.slices;
  spec.slice_blocks = plan.slice_blocks;
  spec.run_blocks = plan.run_blocks;
  spec.prepack_b = plan.prepack != 0;
  spec.bf16_pairs = plan.pairs != 0;
  return spec;
}

Plan to_plan(const MatmulSpec& spec) {
  Plan plan;
  plan.mr = spec.mr;
  plan.nr = spec.nr;
  plan.mc = spec.mc;
  plan.nc = spec.nc;
  plan.kc = spec.kc;
  plan.slices = spec.slices;
  plan.slice_blocks = spec.slice_blocks;
  plan.run_blocks = spec.run_blocks;
  plan.prepack = spec.prepack_b ? 1 : 0;
  plan.pairs = spec.bf16_pairs ? 1 : 0;
  plan.tasks = spec.batch * spec.slices * spec.m_tiles() * spec.n_tiles();
  plan.scratch = scratch_bytes(spec);
  plan.workspace = workspace_bytes(spec);
  return plan;
}

}  // namespace mezzo::ir
