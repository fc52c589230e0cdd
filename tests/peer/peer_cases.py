# SPDX-License-Identifier: Apache-2.0
# The cases of peer_ops.py: an op of Mezzo with its attributes and inputs, and what PyTorch does
# instead.
import math

import numpy as np
import torch
import torch.nn.functional as F

# What differs on purpose: (case, what) -> why.
LIMIT = "the limit at an infinite input, where PyTorch's formula meets inf - inf or inf * 0"
NAN = "NaN propagates"
CONVENTIONS = {
    ("abs", "gradient by x"): NAN,
    ("sign", "value"): NAN,
    ("softsign", "value"): LIMIT,
    ("softsign", "gradient by x"): LIMIT,
    ("relu", "gradient by x"): "a NaN is not greater than 0, so that the gradient is 0",
    ("selu", "gradient by x"): NAN,
    ("gelu", "value"): LIMIT,
    ("gelu", "gradient by x"): LIMIT,
    ("silu", "value"): LIMIT,
    ("silu", "gradient by x"): LIMIT,
    ("hard_swish", "value"): LIMIT,
    ("hard_swish", "gradient by x"): NAN,
}


class Case:
    def __init__(self, family, op, inputs, torch_function, attrs="", results=None, wrt=None, name=None):
        self.family, self.op, self.torch, self.attrs = family, op, torch_function, attrs
        self.name = name or op
        self.inputs = {k: np.asarray(v) for k, v in inputs.items()}
        self.results = results
        floats = [k for k, v in self.inputs.items() if v.dtype == np.float32]
        self.wrt = floats if wrt is None else wrt

    def result_types(self):
        if self.results is None:
            arrays = self.torch(*[to_torch(v) for v in self.inputs.values()])
            arrays = arrays if isinstance(arrays, (tuple, list)) else [arrays]
            self.results = [type_text(a.detach().numpy()) for a in arrays]
        return self.results

    def weights(self):
        dims = self.result_types()[0][len("tensor<"):-1].split("x")[:-1]
        random = np.random.default_rng(7)
        return random.uniform(-1, 1, [int(n) for n in dims]).astype(np.float32)

    def text(self):
        types = [type_text(v) for v in self.inputs.values()]
        results = self.result_types()
        given = types[0] if len(types) == 1 else "(" + ", ".join(types) + ")"
        made = results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"
        signature = made if len(types) == 1 and given == made else f"{given} -> {made}"
        names = ", ".join("%" + k for k in self.inputs)
        return f"{self.op} {names}{' {' + self.attrs + '}' if self.attrs else ''} : {signature}"


def to_torch(array):
    return torch.from_numpy(array.astype(np.float64) if array.dtype == np.float32 else array)


def type_text(array):
    name = {"f": "f32", "i": "i64" if array.dtype == np.int64 else "i32", "b": "bool"}[array.dtype.kind]
    dims = "x".join(str(n) for n in array.shape)
    return f"tensor<{dims}{'x' if dims else ''}{name}>"


def random_array(seed, *shape, low=-3.0, high=3.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 20.0, -20.0, 88.0, -88.0,
                  1e-6, -1e-6, 1e-30, 1e30, -1e30, math.inf, -math.inf, math.nan], dtype=np.float32)


def unary_cases():
    def case(op, function, low=-3.0, high=3.0, edges=True, wrt=None):
        x = random_array(1, 400, low=low, high=high)
        if edges:
            x = np.concatenate([x, EDGES])
        return Case("unary", op, {"x": x}, function, wrt=wrt)

    square_root = lambda x: torch.rsqrt(x)  # noqa: E731
    yield from [
        case("neg", lambda x: -x), case("abs", lambda x: x.abs()), case("sign", lambda x: x.sign()),
        case("square", lambda x: x * x, edges=False), case("reciprocal", lambda x: 1 / x, low=0.1),
        case("sqrt", torch.sqrt, low=0.01, edges=False), case("rsqrt", square_root, low=0.01, edges=False),
        case("cbrt", lambda x: x.sign() * x.abs() ** (1 / 3), edges=False),
        case("exp", torch.exp), case("exp2", torch.exp2), case("expm1", torch.expm1),
        case("log", torch.log, low=0.01), case("log2", torch.log2, low=0.01),
        case("log10", torch.log10, low=0.01), case("log1p", torch.log1p, low=-0.9),
        case("sin", torch.sin), case("cos", torch.cos), case("tan", torch.tan, low=-1, high=1),
        case("asin", torch.asin, low=-0.99, high=0.99, edges=False),
        case("acos", torch.acos, low=-0.99, high=0.99, edges=False), case("atan", torch.atan),
        case("sinh", torch.sinh), case("cosh", torch.cosh), case("tanh", torch.tanh),
        case("asinh", torch.asinh), case("acosh", torch.acosh, low=1.01, edges=False),
        case("atanh", torch.atanh, low=-0.99, high=0.99, edges=False),
        case("erf", torch.erf), case("erfc", torch.erfc),
        case("lgamma", torch.lgamma, low=0.1, high=20, edges=False),
        case("digamma", torch.digamma, low=0.1, high=20, edges=False),
        case("sigmoid", torch.sigmoid), case("log_sigmoid", F.logsigmoid), case("softplus", F.softplus, edges=False),
        case("softsign", F.softsign), case("relu", torch.relu), case("relu6", F.relu6), case("selu", F.selu),
        case("gelu", F.gelu), case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), edges=False),
        case("silu", F.silu), case("mish", F.mish, edges=False), case("hard_sigmoid", F.hardsigmoid),
        case("hard_swish", F.hardswish), case("hard_tanh", F.hardtanh),
        case("floor", torch.floor), case("ceil", torch.ceil), case("round", torch.round),
        case("trunc", torch.trunc), case("isnan", torch.isnan, wrt=[]), case("isinf", torch.isinf, wrt=[]),
        case("isfinite", torch.isfinite, wrt=[]),
    ]


def binary_cases():
    x, y = random_array(1, 300), random_array(2, 300)
    near, half = random_array(3, 300, low=0.5), np.float32(0.25)
    pairs = {"x": x, "y": y}

    def case(op, function, inputs=None, **more):
        return Case("binary", op, inputs or pairs, function, **more)

    edge_x, edge_y = (a.ravel().astype(np.float32) for a in np.meshgrid(EDGES, EDGES))
    edges = {"x": edge_x, "y": edge_y}
    yield from [
        case("add", torch.add), case("sub", torch.sub), case("mul", torch.mul), case("div", torch.div),
        case("floor_div", torch.floor_divide, wrt=[]), case("remainder", torch.remainder),
        case("pow", torch.pow, {"x": near, "y": y}), case("atan2", torch.atan2), case("hypot", torch.hypot),
        case("maximum", torch.maximum), case("minimum", torch.minimum), case("logaddexp", torch.logaddexp),
        case("xlogy", torch.xlogy, {"x": x, "y": near}),
        case("xlog1py", torch.special.xlog1py, {"x": x, "y": near}),
        case("where", torch.where, {"condition": x > 0, "x": x, "y": y}),
        case("clamp", torch.clamp, {"x": x, "low": np.float32(-1), "high": np.float32(1)}, wrt=["x"]),
        case("lerp", torch.lerp, {"x": x, "y": y, "w": random_array(4, 300, low=0, high=1)}),
        case("leaky_relu", lambda x, a: torch.where(x > 0, x, x * a), {"x": x, "a": half}),
        case("elu", lambda x, a: torch.where(x > 0, x, a * torch.expm1(x)), {"x": x, "a": half}),
        case("celu", lambda x, a: torch.where(x > 0, x, a * torch.expm1(x / a)), {"x": x, "a": half}),
    ]
    for op, function in [("add", torch.add), ("mul", torch.mul), ("div", torch.div), ("pow", torch.pow),
                         ("maximum", torch.maximum), ("minimum", torch.minimum), ("atan2", torch.atan2),
                         ("hypot", torch.hypot), ("logaddexp", torch.logaddexp), ("xlogy", torch.xlogy),
                         ("remainder", torch.remainder)]:
        yield case(op, function, edges, wrt=[], name=f"{op} at edges")
    for op in ["eq", "ne", "lt", "le", "gt", "ge"]:
        yield case(op, getattr(torch, op), edges, wrt=[], name=f"{op} at edges")
    a = np.random.default_rng(5).integers(-50, 50, 300).astype(np.int32)
    b = np.random.default_rng(6).integers(1, 20, 300).astype(np.int32) * np.where(a % 2 == 0, 1, -1).astype(np.int32)
    for op, function in [("floor_div", torch.floor_divide), ("remainder", torch.remainder),
                         ("bitwise_and", torch.bitwise_and), ("bitwise_or", torch.bitwise_or),
                         ("bitwise_xor", torch.bitwise_xor)]:
        yield case(op, function, {"x": a, "y": b}, name=f"{op} of integers")


def reduction_cases():
    x = random_array(1, 5, 7, 9)
    for axes, text in [((0,), "0"), ((2,), "2"), ((0, 2), "0, 2"), ((0, 1, 2), "0, 1, 2")]:
        for op, function in [("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin),
                             ("var", torch.var), ("stddev", torch.std), ("logsumexp", torch.logsumexp)]:
            yield Case("reduction", op, {"x": x}, lambda x, f=function, a=axes: f(x, dim=a), f"axes = [{text}]",
                       name=f"{op} over {text}")
        for order in [1.0, 2.0, 3.0]:
            yield Case("reduction", "norm", {"x": x},
                       lambda x, a=axes, p=order: torch.linalg.vector_norm(x, ord=p, dim=a),
                       f"axes = [{text}], ord = {order}", name=f"norm {order} over {text}")
    for axis in range(3):
        yield Case("reduction", "prod", {"x": x}, lambda x, a=axis: torch.prod(x, dim=a), f"axes = [{axis}]")
        for op in ["argmax", "argmin"]:
            yield Case("reduction", op, {"x": x},
                       lambda x, a=axis, o=op: getattr(torch, o)(x, dim=a).to(torch.int32), f"axis = {axis}", wrt=[])
    zeros = x * (np.abs(x) > 1.5)
    yield Case("reduction", "prod", {"x": zeros[:, :3, :4]}, lambda x: torch.prod(x, dim=2), "axes = [2]",
               name="prod with zeros")
    yield Case("reduction", "count_nonzero", {"x": zeros},
               lambda x: torch.count_nonzero(x, dim=1).to(torch.int32), "axes = [1]", wrt=[])
    for op, function in [("any", torch.any), ("all", torch.all)]:
        yield Case("reduction", op, {"x": x > -2.8}, lambda x, f=function: f(x, dim=1), "axes = [1]")
    for op, function in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax)]:
        for axis in range(3):
            yield Case("reduction", op, {"x": x}, lambda x, f=function, a=axis: f(x, dim=a), f"axis = {axis}")


def scan_cases():
    x = random_array(1, 4, 33, 3)
    zeros = x * (np.abs(x) > 0.5)
    for axis in range(3):
        for op, function in [("cumsum", torch.cumsum), ("cumprod", torch.cumprod)]:
            yield Case("scan", op, {"x": zeros}, lambda x, f=function, a=axis: f(x, dim=a), f"axis = {axis}")
        for op, function in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
            yield Case("scan", op, {"x": x}, lambda x, f=function, a=axis: f(x, dim=a)[0], f"axis = {axis}")
        for down in [False, True]:
            text = f"axis = {axis}" + (", descending = true" if down else "")
            yield Case("scan", "sort", {"x": x}, lambda x, a=axis, d=down: torch.sort(x, dim=a, descending=d)[0], text)
            yield Case("scan", "argsort", {"x": x}, lambda x, a=axis, d=down: torch.argsort(
                x, dim=a, descending=d, stable=True).to(torch.int32), text, wrt=[])
    yield Case("scan", "topk", {"x": x}, lambda x: [t.to(torch.int32) if i else t for i, t in enumerate(
        torch.topk(x, 5, dim=1))], "axis = 1, k = 5")
    ties = np.round(x[:, :, 0]).astype(np.float32)
    yield Case("scan", "argsort", {"x": ties}, lambda x: torch.argsort(x, dim=1, stable=True).to(torch.int32),
               "axis = 1", wrt=[], name="argsort of ties")


def product_cases():
    a, b = random_array(1, 3, 5, 7), random_array(2, 3, 7, 4)
    yield Case("product", "matmul", {"a": a, "b": b}, torch.matmul)
    yield Case("product", "matmul", {"a": a, "b": random_array(3, 7, 4)}, torch.matmul, name="matmul broadcast")
    yield Case("product", "matmul", {"a": a, "b": random_array(4, 3, 4, 7)}, lambda a, b: a @ b.mT, "transpose_b = true")
    yield Case("product", "matmul", {"a": random_array(5, 3, 7, 5), "b": b}, lambda a, b: a.mT @ b, "transpose_a = true")


def index_cases():
    x = random_array(1, 6, 5, 4)
    random = np.random.default_rng(2)
    for axis in range(3):
        indices = random.integers(0, x.shape[axis], (3, 2)).astype(np.int32)
        yield Case("index", "gather", {"x": x, "indices": indices},
                   lambda x, indices, a=axis: torch.index_select(x, a, indices.ravel().long()).reshape(
                       *x.shape[:a], *indices.shape, *x.shape[a + 1:]), f"axis = {axis}")
        places = random.integers(0, x.shape[axis], [8 if i == axis else n for i, n in enumerate(x.shape)]).astype(np.int32)
        yield Case("index", "take_along_axis", {"x": x, "indices": places},
                   lambda x, indices, a=axis: torch.take_along_dim(x, indices.long(), a), f"axis = {axis}")
        rows = random.integers(0, x.shape[axis], 9).astype(np.int32)
        updates = random_array(3, *[9 if i == axis else n for i, n in enumerate(x.shape)])
        yield Case("index", "scatter_add", {"x": x, "indices": rows, "updates": updates},
                   lambda x, indices, updates, a=axis: torch.index_add(x, a, indices.long(), updates), f"axis = {axis}")
        yield Case("index", "concat", {"x": x, "y": x}, lambda x, y, a=axis: torch.cat([x, y], a), f"axis = {axis}")
        yield Case("index", "flip", {"x": x}, lambda x, a=axis: torch.flip(x, [a]), f"axes = [{axis}]")


def norm_cases():
    x, w, b = random_array(1, 6, 5, 8), random_array(2, 8), random_array(3, 8)
    yield Case("norm", "layer_norm", {"x": x, "w": w, "b": b}, lambda x, w, b: F.layer_norm(x, (8,), w, b), "axis = 2")
    yield Case("norm", "layer_norm", {"x": x + np.float32(1000)}, lambda x: F.layer_norm(x, (5, 8)), "axis = 1",
               name="layer_norm far from 0")
    yield Case("norm", "rms_norm", {"x": x, "w": w}, lambda x, w: F.rms_norm(x, (8,), w, 1e-6), "axis = 2")
    last = lambda f: lambda x, *rest: f(x.movedim(-1, 1), *rest).movedim(1, -1)  # noqa: E731
    yield Case("norm", "group_norm", {"x": x, "w": w, "b": b}, last(lambda x, w, b: F.group_norm(x, 4, w, b)), "groups = 4")

    def batch(x, w, b):
        mean, var = x.mean((0, 1)), x.var((0, 1), correction=0)
        y = F.batch_norm(x.movedim(-1, 1), None, None, w, b, training=True).movedim(1, -1)
        return y, mean, var

    yield Case("norm", "batch_norm", {"x": x, "w": w, "b": b}, batch,
               results=["tensor<6x5x8xf32>"] + ["tensor<8xf32>"] * 3)


def window_cases():
    last = lambda f: lambda x, *rest: f(x.movedim(-1, 1), *rest).movedim(1, -1)  # noqa: E731
    x = random_array(1, 2, 9, 8, 6)
    for stride, pad, dilation, groups in [(1, 1, 1, 1), (2, 0, 1, 1), (1, 2, 2, 1), (2, 1, 1, 3), (1, 1, 1, 6)]:
        weight = random_array(2, 6 * (2 if groups == 6 else 1), 3, 3, 6 // groups)
        yield Case("window", "conv", {"x": x, "weight": weight},
                   lambda x, weight, s=stride, p=pad, d=dilation, g=groups: F.conv2d(
                       x.movedim(-1, 1), weight.movedim(-1, 1), None, s, p, d, g).movedim(1, -1),
                   f"strides = [{stride}, {stride}], low = [{pad}, {pad}], high = [{pad}, {pad}], "
                   f"dilations = [{dilation}, {dilation}], groups = {groups}",
                   name=f"conv stride {stride} padding {pad} dilation {dilation} groups {groups}")
    window = "window = [3, 2], strides = [2, 1], low = [1, 0], high = [1, 0]"
    yield Case("window", "max_pool", {"x": x}, last(lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0))),
               window + ", dilations = [1, 1]")
    yield Case("window", "avg_pool", {"x": x}, last(lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0))), window)
    yield Case("window", "avg_pool", {"x": x}, last(lambda x: F.avg_pool2d(
        x, (3, 2), (2, 1), (1, 0), count_include_pad=False)), window + ", count_include_pad = false",
        name="avg_pool without padding")
    yield Case("window", "upsample_nearest", {"x": x}, last(lambda x: F.interpolate(x, size=(18, 11))), "size = [18, 11]")
    for corners in [False, True]:
        yield Case("window", "upsample_linear", {"x": x}, last(lambda x, c=corners: F.interpolate(
            x, size=(18, 11), mode="bilinear", align_corners=c)), f"size = [18, 11], align_corners = {str(corners).lower()}",
            name=f"upsample_linear align_corners {corners}")


def loss_cases():
    logits = random_array(1, 12, 5)
    labels = np.array([0, 1, 2, 3, 4, 0, 1, -100, 3, 2, -100, 4], dtype=np.int32)
    weight = random_array(2, 5, low=0.1, high=2)
    soft = torch.softmax(torch.from_numpy(random_array(3, 12, 5)).double(), 1).numpy().astype(np.float32)
    for reduce in ["mean", "sum", "none"]:
        text = f'reduce = "{reduce}"'
        yield Case("loss", "cross_entropy", {"x": logits, "y": labels},
                   lambda x, y, r=reduce: F.cross_entropy(x, y.long(), reduction=r), text, name=f"cross_entropy {reduce}")
        yield Case("loss", "cross_entropy", {"x": logits, "y": labels, "w": weight},
                   lambda x, y, w, r=reduce: F.cross_entropy(x, y.long(), w, reduction=r, label_smoothing=0.1),
                   text + ", label_smoothing = 0.1", wrt=["x"], name=f"cross_entropy weights smoothing {reduce}")
        yield Case("loss", "nll", {"x": logits, "y": labels, "w": weight},
                   lambda x, y, w, r=reduce: F.nll_loss(x, y.long(), w, reduction=r), text, wrt=["x"], name=f"nll {reduce}")
        yield Case("loss", "soft_cross_entropy", {"x": logits, "y": soft},
                   lambda x, y, r=reduce: F.cross_entropy(x, y, reduction=r), text, wrt=["x"],
                   name=f"soft_cross_entropy {reduce}")
    yield Case("loss", "bce", {"p": random_array(4, 40, low=0.01, high=0.99), "t": random_array(5, 40, low=0, high=1)},
               lambda p, t: F.binary_cross_entropy(p, t, reduction="none"), wrt=["p"])
    targets = random_array(6, 40, low=0, high=1)
    yield Case("loss", "bce_with_logits", {"x": random_array(7, 40, low=-30, high=30), "t": targets},
               lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"), wrt=["x"])
    yield Case("loss", "bce_with_logits", {"x": random_array(7, 40), "t": targets, "w": random_array(8, 40, low=0.5)},
               lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, reduction="none", pos_weight=w), wrt=["x"],
               name="bce_with_logits pos_weight")
    yield Case("loss", "kl_div", {"x": random_array(9, 40), "t": random_array(10, 40, low=0, high=1)},
               lambda x, t: F.kl_div(x, t, reduction="none"), wrt=["x"])


def attention_cases():
    q, k, v = random_array(1, 2, 4, 6, 8), random_array(2, 2, 4, 9, 8), random_array(3, 2, 4, 9, 5)
    results = ["tensor<2x4x6x5xf32>", "tensor<2x4x6xf32>"]
    scale = 1 / math.sqrt(8)
    attention = F.scaled_dot_product_attention
    yield Case("attention", "attention", {"q": q, "k": k, "v": v}, lambda q, k, v: attention(q, k, v),
               f"scale = {scale}", results)
    mask = np.random.default_rng(4).random((2, 1, 6, 9)) > 0.3
    yield Case("attention", "attention", {"q": q, "k": k, "v": v, "m": mask},
               lambda q, k, v, m: attention(q, k, v, attn_mask=m), f"masked = true, scale = {scale}", results,
               name="attention boolean mask")
    yield Case("attention", "attention", {"q": q, "k": k, "v": v, "m": random_array(5, 6, 9)},
               lambda q, k, v, m: attention(q, k, v, attn_mask=m), f"masked = true, scale = {scale}", results,
               name="attention additive mask")
    yield Case("attention", "attention", {"q": q, "k": k[:, :2], "v": v[:, :2]},
               lambda q, k, v: attention(q, k, v, enable_gqa=True), f"scale = {scale}", results, name="attention grouped")
    square = random_array(6, 2, 4, 6, 8)
    yield Case("attention", "attention", {"q": q, "k": square, "v": square},
               lambda q, k, v: attention(q, k, v, is_causal=True), f"causal = true, scale = {scale}",
               ["tensor<2x4x6x8xf32>", "tensor<2x4x6xf32>"], name="attention causal")


def recurrent_cases():
    steps, batch, units, size = 7, 3, 5, 4
    x, h0, c0 = random_array(1, steps, batch, size), random_array(2, batch, units), random_array(3, batch, units)

    def network(kind, gates, **options):
        def run(x, h0, *rest):
            c0 = rest[0] if kind is torch.nn.LSTM else None
            w, u, b, *more = rest[1:] if kind is torch.nn.LSTM else rest
            v = more[0] if more else torch.zeros_like(b)
            layer = kind(size, units, **options).double()
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.zero_()
            weights = [w.T, u.T, b, v]
            state = (h0[None], c0[None]) if c0 is not None else h0[None]
            names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
            y, _ = torch.func.functional_call(layer, dict(zip(names, weights)), (x, state))
            return y
        return run

    def weights(gates, seed):
        return {"w": random_array(seed, size, gates * units, low=-1, high=1),
                "u": random_array(seed + 1, units, gates * units, low=-1, high=1),
                "b": random_array(seed + 2, gates * units, low=-1, high=1)}

    y = f"tensor<{steps}x{batch}x{units}xf32>"
    wide = f"tensor<{steps}x{batch}x{4 * units}xf32>"
    for activation in ["tanh", "relu"]:
        yield Case("recurrent", "rnn", {"x": x, "h0": h0, **weights(1, 10)},
                   network(torch.nn.RNN, 1, nonlinearity=activation), f'activation = "{activation}"', [y, y],
                   name=f"rnn {activation}")
    yield Case("recurrent", "lstm", {"x": x, "h0": h0, "c0": c0, **weights(4, 20)}, network(torch.nn.LSTM, 4),
               results=[y, y, wide])
    yield Case("recurrent", "gru", {"x": x, "h0": h0, **weights(3, 30), "v": random_array(40, 3 * units)},
               network(torch.nn.GRU, 3), results=[y, y, wide])


def all_cases():
    for family in [unary_cases, binary_cases, reduction_cases, scan_cases, product_cases, index_cases, norm_cases,
                   window_cases, loss_cases, attention_cases, recurrent_cases]:
        yield from family()
