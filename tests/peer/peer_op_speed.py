# SPDX-License-Identifier: Apache-2.0
# The rows of `mezzo-bench ops` beside the same ops of PyTorch: minimum of 20 of each, taken in turns
# row by row, f32, channels last where there are channels. Needs a Python with torch:
#
#   ../peer/bin/python tests/peer/peer_op_speed.py [--bench=build/release/bin/mezzo-bench]
#       [--threads=N] [--only=TEXT]
#
# One line a row: name, ms of Mezzo, ms of PyTorch, their ratio. The exit status is 1 when a row takes
# more than three times as long as in PyTorch.
import argparse
import re
import subprocess
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("peer_op_speed.py: this Python has no torch: pip install torch in a virtual environment")

REPETITIONS = 20
SLOWEST = 3


def images(*shape):
    n, h, w, c = shape
    return torch.rand(n, c, h, w).to(memory_format=torch.channels_last)


def rows():
    mi, big = torch.rand(1 << 20) * 2 - 1, torch.rand(4096, 1024)
    other, square = torch.rand(1 << 20), torch.rand(1024, 1024)
    labels = torch.randint(1024, (4096,))
    weight, bias = torch.rand(1024), torch.rand(1024)
    table, chosen = torch.rand(30000, 256), torch.randint(30000, (8192,))
    updates = torch.rand(8192, 256)
    yield "exp 1 Mi", lambda: torch.exp(mi)
    yield "log1p 1 Mi", lambda: torch.log1p(mi)
    yield "tanh 1 Mi", lambda: torch.tanh(mi)
    yield "erf 1 Mi", lambda: torch.erf(mi)
    yield "sin 1 Mi", lambda: torch.sin(mi)
    yield "gelu 1 Mi", lambda: F.gelu(mi)
    yield "silu 1 Mi", lambda: F.silu(mi)
    yield "pow 1 Mi", lambda: torch.pow(other, mi)
    yield "atan2 1 Mi", lambda: torch.atan2(mi, other)
    wide = torch.rand(2048, 1024)
    yield "add row 2048 x 1024", lambda: wide + bias
    yield "sum rows 4096 x 1024", lambda: big.sum(1)
    yield "sum columns 4096 x 1024", lambda: big.sum(0)
    yield "max rows 4096 x 1024", lambda: big.amax(1)
    yield "argmax rows 4096 x 1024", lambda: big.argmax(1)
    yield "prod rows 4096 x 1024", lambda: big.prod(1)
    yield "var rows 4096 x 1024", lambda: big.var(1)
    yield "norm rows 4096 x 1024", lambda: torch.linalg.vector_norm(big, dim=1)
    yield "logsumexp rows 4096 x 1024", lambda: big.logsumexp(1)
    yield "cumsum rows 4096 x 1024", lambda: big.cumsum(1)
    yield "cumsum columns 4096 x 1024", lambda: big.cumsum(0)
    yield "sort rows 1024 x 1024", lambda: square.sort(dim=1, stable=True)
    yield "topk 10 of rows 1024 x 1024", lambda: square.topk(10, 1)
    yield "softmax 4096 x 1024", lambda: big.softmax(1)
    soft = big.softmax(1)
    yield "softmax backward 4096 x 1024", lambda: torch.ops.aten._softmax_backward_data(big, soft, 1, torch.float32)
    yield "layer norm 4096 x 1024", lambda: F.layer_norm(big, (1024,), weight, bias)
    _, mean, rstd = torch.native_layer_norm(big, (1024,), weight, bias, 1e-5)
    yield "layer norm backward 4096 x 1024", lambda: torch.ops.aten.native_layer_norm_backward(
        big, big, (1024,), mean, rstd, weight, bias, [True, True, True])
    yield "rms norm 4096 x 1024", lambda: F.rms_norm(big, (1024,), weight)
    channels, scale = images(32, 28, 28, 64), torch.rand(64)
    yield "batch norm 32 x 28 x 28 x 64", lambda: F.batch_norm(channels, None, None, scale, scale, training=True)
    yield "cross entropy 4096 x 1024", lambda: F.cross_entropy(big, labels)
    logits = big.clone().requires_grad_()
    loss = F.cross_entropy(logits, labels)
    yield "cross entropy backward 4096 x 1024", lambda: torch.autograd.grad(loss, logits, retain_graph=True)
    yield "bce with logits 1 Mi", lambda: F.binary_cross_entropy_with_logits(mi, other, reduction="none")
    yield "embedding 8192 of 30000 x 256", lambda: F.embedding(chosen, table)
    yield "embedding backward 8192 of 30000 x 256", lambda: torch.index_add(table, 0, chosen, updates)
    yield "concat 1024 x 1024 twice", lambda: torch.cat([square, square], 1)
    large = torch.rand(2048, 2048)
    yield "transpose 2048 x 2048", lambda: large.T.contiguous()
    yield "flip 2048 x 1024", lambda: wide.flip(1)
    pooled = images(32, 56, 56, 64)
    nhwc = torch.rand(32, 56, 56, 64)
    yield "pad 32 x 56 x 56 x 64", lambda: F.pad(nhwc, (0, 0, 1, 1, 1, 1))
    batch = torch.rand(64, 128, 128)
    yield "matmul 64 of 128 x 128 x 128", lambda: batch @ batch
    kernel = images(64, 3, 3, 64)
    yield "conv 3 x 3, 32 x 28 x 28 x 64", lambda: F.conv2d(channels, kernel, padding=1)
    deep, point = images(32, 28, 28, 256), images(64, 1, 1, 256)
    yield "conv 1 x 1, 32 x 28 x 28 x 256", lambda: F.conv2d(deep, point)
    single = images(64, 3, 3, 1)
    yield "conv depthwise 3 x 3, 32 x 28 x 28 x 64", lambda: F.conv2d(channels, single, padding=1, groups=64)

    def convolution_backward(mask):
        return torch.ops.aten.convolution_backward(channels, channels, kernel, None, [1, 1], [1, 1], [1, 1], False,
                                                   [0, 0], 1, mask)

    yield "conv input gradient 3 x 3, 32 x 28 x 28 x 64", lambda: convolution_backward([True, False, False])
    yield "conv weight gradient 3 x 3, 32 x 28 x 28 x 64", lambda: convolution_backward([False, True, False])
    yield "max pool 2 x 2, 32 x 56 x 56 x 64", lambda: F.max_pool2d(pooled, 2)
    yield "average pool 2 x 2, 32 x 56 x 56 x 64", lambda: F.avg_pool2d(pooled, 2)
    yield "upsample nearest to 32 x 56 x 56 x 64", lambda: F.interpolate(channels, scale_factor=2)
    q, k, v = (torch.rand(8, 8, 256, 64) for _ in range(3))
    yield "attention 8 x 8 x 256 x 64", lambda: F.scaled_dot_product_attention(q, k, v)
    steps = torch.rand(32, 32, 256)
    rnn, lstm, gru = (kind(256, 256) for kind in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU))
    yield "rnn 32 steps of 32 x 256", lambda: rnn(steps)
    yield "lstm 32 steps of 32 x 256", lambda: lstm(steps)
    yield "gru 32 steps of 32 x 256", lambda: gru(steps)


def minimum(function):
    best = float("inf")
    for _ in range(REPETITIONS + 2):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def mezzo(bench, threads, name):
    done = subprocess.run([bench, "ops", f"--only={name}", f"--threads={threads}", "--seconds=0.3"],
                          capture_output=True, text=True)
    found = re.search("^" + re.escape(name) + r" +([0-9.]+) +[0-9.]+$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not found:
        sys.exit(f"peer_op_speed.py: no row '{name}' in {bench}: {done.stderr.strip()}")
    return float(found.group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", default="build/release/bin/mezzo-bench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    print(f"PyTorch {torch.__version__}, {arguments.threads} threads, minimum of {REPETITIONS}")
    print(f"{'':50}{'Mezzo ms':>10}{'PyTorch':>10}{'ratio':>8}")
    slow = 0
    for name, function in rows():
        if arguments.only not in name:
            continue
        with torch.no_grad() if "cross entropy backward" not in name else torch.enable_grad():
            before = minimum(function)
            ours = mezzo(arguments.bench, arguments.threads, name)
            theirs = min(before, minimum(function))
        slow += ours > SLOWEST * theirs
        print(f"{name:50}{ours:10.3f}{theirs:10.3f}{ours / theirs:8.2f}", flush=True)
    print(f"{slow} rows above {SLOWEST}")
    return 1 if slow else 0


sys.exit(main())
