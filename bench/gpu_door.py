"""On one CUDA device: causal and windowed attention, forward and backward, beside torch's best.

`python bench/gpu_door.py`; `--quick` leaves out the longest lengths.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

from atento import Causal, Window, attend, explain
from measure import interleaved, keep, medians

HEADS = 16
BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def qkv(length: int, width: int) -> list[Tensor]:
    torch.manual_seed(0)
    shape = (1, HEADS, length, width)
    make = {"device": "cuda", "dtype": torch.bfloat16, "requires_grad": True}
    return [torch.randn(shape, **make) for _ in range(3)]  # type: ignore[call-overload]


def both_ways(attention: Attention, inputs: list[Tensor]) -> Callable[[], object]:
    pull = torch.randn_like(inputs[0])

    def action() -> None:
        torch.autograd.grad(attention(*inputs), inputs, pull)

    return action


def with_backend(backend: SDPBackend) -> Attention:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return sdpa(q, k, v, is_causal=True)

    return attention


def causal(lengths: list[int]) -> dict[str, object]:
    found: dict[str, object] = {}
    for width in (64, 128):
        for length in lengths:
            inputs = qkv(length, width)
            peers = {name: with_backend(backend) for name, backend in BACKENDS.items()}
            actions = {"atento": both_ways(lambda *x: attend(*x, mask=Causal()), inputs)}
            for name, peer in peers.items():
                try:
                    peer(*inputs)
                except RuntimeError:
                    continue
                actions[name] = both_ways(peer, inputs)
            found[f"d {width}, N {length}"] = summary(medians(interleaved(actions, 15, 3)))
    return found


def windows(lengths: list[int]) -> dict[str, object]:
    found: dict[str, object] = {}
    for width in (64, 128):
        for reach in (255, 512):
            for length in lengths:
                torch._dynamo.reset()  # past its limit of recompilations the peer would run dense
                compiled = torch.compile(flex_attention, fullgraph=True)
                inputs = qkv(length, width)
                mask = Window(reach, reach)
                actions = {
                    "atento": both_ways(lambda *x, m=mask: attend(*x, mask=m), inputs),
                    "flex": both_ways(flex_peer(compiled, reach, length), inputs),
                    "varlen": both_ways(varlen_peer(reach, length), inputs),
                }
                result = summary(medians(interleaved(actions, 15, 3)))
                result["path"] = explain(*inputs, mask=mask).path
                found[f"d {width}, ±{reach}, N {length}"] = result
    return found


def flex_peer(compiled: Callable[..., Tensor], reach: int, length: int) -> Attention:
    def mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() <= reach

    block_mask = create_block_mask(mod, None, None, length, length, device="cuda", _compile=True)
    return lambda q, k, v: compiled(q, k, v, block_mask=block_mask)


def varlen_peer(reach: int, length: int) -> Attention:
    from torch.nn.attention.varlen import varlen_attn

    starts = torch.tensor([0, length], dtype=torch.int32, device="cuda")

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        flat = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
        out = varlen_attn(*flat, starts, starts, length, length, window_size=(reach, reach))
        return out[None].transpose(1, 2)

    return attention


def summary(times: dict[str, float]) -> dict[str, object]:
    peers = {name: seconds for name, seconds in times.items() if name != "atento"}
    best = min(peers, key=lambda name: peers[name])
    return {
        "milliseconds": {name: round(s * 1e3, 3) for name, s in times.items()},
        "best peer": best,
        "speed beside it": round(peers[best] / times["atento"], 3),
    }


def main() -> None:
    quick = "--quick" in sys.argv
    lengths = [2048, 8192] if quick else [2048, 8192, 16384, 32768]
    keep(
        "door_gpu",
        {
            "claim": "causal ≥ 0.98 of SDPA's best backend; windows ≥ 0.98 of the best of compiled "
            "FlexAttention and varlen; bf16, 16 heads, forward and backward",
            "causal": causal(lengths),
            "window": windows([8192] if quick else [8192, 32768]),
        },
    )


if __name__ == "__main__":
    main()
