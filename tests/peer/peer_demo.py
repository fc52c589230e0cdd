# SPDX-License-Identifier: Apache-2.0
# The training step of the demo (784-256-128-100-10, batch 128, Adam, cross entropy) in PyTorch, to
# set beside `mezzo-bench demo` on the same machine. Needs a Python with torch, best from a virtual
# environment outside the source tree:
#
#   python3 -m venv ../peer && ../peer/bin/pip install torch
#   ../peer/bin/python tests/peer/peer_demo.py [--threads=N] [--steps=N] [--compile]
#
# One line a measurement: name precision mode median_ms min_ms first_ms. The first step is that of a
# fresh model: it holds what the library does once, such as compiling under --compile. A measurement
# whose median exceeds 1.5 times its minimum was disturbed: it is repeated, and after five attempts
# printed as rejected. Times are those of the clock on the wall. mixed_bf16 and mixed_f16 are
# torch.autocast, f16 with a gradient scaler, as the demo has a loss scale.
import argparse
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("peer_demo.py: this Python has no torch: pip install torch in a virtual environment")

BATCH = 128
FEWEST_STEPS = 30
ATTEMPTS = 5
MOST_SPREAD = 1.5
PRECISIONS = {"f32": None, "mixed_bf16": torch.bfloat16, "mixed_f16": torch.float16}


def make_model():
    sizes = [784, 256, 128, 100, 10]
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def make_step(precision, compiled):
    torch.manual_seed(1)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "mixed_f16")
    images = torch.rand(BATCH, 784)
    labels = torch.randint(10, (BATCH,))
    dtype = PRECISIONS[precision]

    def forward():
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            logits = model(images)
            return torch.nn.functional.cross_entropy(logits, labels)

    run_forward = torch.compile(forward) if compiled else forward

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = run_forward()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return step


def timed(step):
    start = time.perf_counter()
    loss = step()
    seconds = time.perf_counter() - start
    if loss != loss:
        sys.exit("peer_demo.py: the loss is not a number")
    return 1e3 * seconds


def measure(precision, mode, steps):
    step = make_step(precision, mode == "compiled")
    first = timed(step)
    for _ in range(5):
        step()
    for _ in range(ATTEMPTS):
        times = [timed(step) for _ in range(steps)]
        median, least = statistics.median(times), min(times)
        if median <= MOST_SPREAD * least:
            return f"{median:.3f} {least:.3f} {first:.1f}"
    return f"rejected: median {median:.3f} ms, minimum {least:.3f} ms, first {first:.1f} ms"


def main():
    parser = argparse.ArgumentParser(description="The demo's training step in PyTorch.")
    parser.add_argument("--threads", type=int, default=0, help="0: as PyTorch chooses")
    parser.add_argument("--steps", type=int, default=200, help=f"at least {FEWEST_STEPS}")
    parser.add_argument("--compile", action="store_true", help="also under torch.compile")
    arguments = parser.parse_args()
    if arguments.steps < FEWEST_STEPS:
        parser.error(f"--steps must be at least {FEWEST_STEPS}")
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    print(f"# PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    print("# name precision mode median_ms min_ms first_ms")
    for mode in ["eager", "compiled"] if arguments.compile else ["eager"]:
        for precision in PRECISIONS:
            print("mlp_step", precision, mode, measure(precision, mode, arguments.steps),
                  flush=True)


main()
