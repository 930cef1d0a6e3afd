"""1,000 random lengths through compiled `attend` with a window: recompilations and graph breaks."""

import random
import time

import torch
import torch._dynamo as dynamo

from atento import Window, attend, explain
from measure import keep

WINDOW = Window(255)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    compiled = torch.compile(lambda q, k, v: attend(q, k, v, mask=WINDOW))
    chance = random.Random(0)
    torch.manual_seed(0)
    worst, slowest, taken = 0.0, 0.0, set()
    for step in range(1000):
        length = chance.randint(2, 4096)  # Dynamo makes a graph of its own for a length of 1
        q, k, v = (
            torch.randn(1, 2, length, 32, dtype=dtype, device=device, requires_grad=True)
            for _ in range(3)
        )
        start = time.perf_counter()
        out = compiled(q, k, v)
        out.sum().backward()
        slowest = max(slowest, time.perf_counter() - start)
        taken.add(explain(q, k, v, mask=WINDOW).path)
        if step % 20 == 0:
            exact = attend(*(x.detach().double() for x in (q, k, v)), mask=WINDOW)
            worst = max(worst, float((out.detach() - exact).abs().max()))
    graphs = dynamo.utils.counters["stats"]["unique_graphs"]
    keep(
        f"lengths_{device}",
        {
            "claim": "1,000 random lengths through compiled attend with a window mask, forward and "
            "backward: ≤ 2 recompiles, 0 graph breaks, never a dense fallback",
            "recompiles": graphs - 1,
            "graph breaks": sum(dynamo.utils.counters["graph_break"].values()),
            "paths": sorted(taken),
            "largest error against float64": worst,
            "seconds of the slowest call (it compiles)": round(slowest, 1),
        },
    )


if __name__ == "__main__":
    main()
