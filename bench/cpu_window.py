"""Training with a window of 256 keys on CPU, beside torch's SDPA with the dense mask."""

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from atento import Window, attend
from measure import interleaved, keep, medians, peak_bytes, ratio

WINDOW = Window(255)


def qkv(length: int, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, 8, length, 64, dtype=dtype, requires_grad=True) for _ in range(3)]


def main() -> None:
    results: dict[str, object] = {
        "claim": "window of 256, N = 4,096, forward and backward: ≥ 4 × SDPA with the dense mask, "
        "memory linear in N",
        "shape": [1, 8, 4096, 64],
    }
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = qkv(4096, dtype)
        table = WINDOW.dense(4096, 4096)
        actions = {
            "atento": lambda q=q, k=k, v=v: attend(q, k, v, mask=WINDOW).sum().backward(),
            "sdpa": lambda q=q, k=k, v=v, t=table: sdpa(q, k, v, attn_mask=t).sum().backward(),
            "sdpa causal": lambda q=q, k=k, v=v: sdpa(q, k, v, is_causal=True).sum().backward(),
        }
        times = interleaved(actions, repeats=9)
        name = str(dtype).removeprefix("torch.")
        results[f"{name} milliseconds"] = {n: round(s * 1e3, 1) for n, s in medians(times).items()}
        results[f"{name} times faster than sdpa"] = round(ratio(times, "sdpa", "atento"), 2)
    peaks = {}
    for length in (4096, 8192, 16384):
        q, k, v = qkv(length, torch.float32)
        peaks[length] = peak_bytes(
            lambda q=q, k=k, v=v: attend(q, k, v, mask=WINDOW).sum().backward()
        )
    results["peak MB beyond q, k, v"] = {n: round(b / 1e6, 1) for n, b in peaks.items()}
    keep("window_cpu", results)


if __name__ == "__main__":
    main()
