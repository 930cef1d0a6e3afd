"""What a training step on a CPU is made of, each beside torch's own: attention, maps, dropout."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from atento import Causal, attend
from atento.core.dropout import dropout
from atento.layers import joined
from measure import interleaved, keep, medians

CAUSAL = Causal()
SHAPES = ((8, 128), (16, 64), (32, 32), (64, 16), (64, 2), (128, 8))  # tokens, batch
WIDTHS = ((128, 256), (128, 1024), (384, 256), (384, 1024), (768, 1024))  # width, tokens
Pair = dict[str, Callable[[], object]]


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 16, 128)
    pairs: dict[str, Pair] = {
        f"attention, causal, [{batch}, 2, {n}, 64], {_name(dtype)}, dropout {p}": attention(
            n, batch, dtype, p
        )
        for dtype in (torch.float32, torch.bfloat16)
        for p in (0.0, 0.2)
        for n, batch in SHAPES
    }
    for width, tokens in WIDTHS:
        for half in (False, True):
            name = f"three maps, {width} wide, {tokens} tokens, {'bfloat16' if half else 'float32'}"
            pairs[name] = maps(width, tokens, half)
    pairs["dropout .2 of [64, 16, 128], forward"] = {
        "torch": lambda: torch.dropout(x, 0.2, True),
        "atento": lambda: dropout(x, 0.2),
    }
    found = {name: medians(interleaved(pair, 25, 2)) for name, pair in pairs.items()}
    keep(
        "pieces_cpu",
        {
            "measured": "forward and backward in microseconds: attention by torch's kernel and by "
            "the path `short`; three maps of one input each by itself and joined",
            "microseconds": {
                name: {who: round(s * 1e6) for who, s in pair.items()}
                for name, pair in found.items()
            },
            "torch's time / atento's": {
                name: round(pair["torch"] / pair["atento"], 2) for name, pair in found.items()
            },
        },
    )


def attention(n: int, batch: int, dtype: torch.dtype, p: float) -> Pair:
    q, k, v, grad = (torch.randn(batch, 2, n, 64).to(dtype) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()

    def by(path: str) -> Callable[[], object]:
        return lambda: attend(q, k, v, mask=CAUSAL, dropout=p, path=path).backward(grad)

    return {"torch": by("sdpa"), "atento": by("short")}


def maps(width: int, tokens: int, half: bool) -> Pair:
    three = [nn.Linear(width, width) for _ in range(3)]
    x = torch.randn(1, tokens, width, requires_grad=True)
    grad = torch.randn(1, tokens, width).to(torch.bfloat16 if half else torch.float32)

    def learn(compute: Callable[[], list[Tensor]]) -> Callable[[], object]:
        def run() -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                out = compute()
            torch.autograd.backward(out, [grad] * 3)

        return run

    return {
        "torch": learn(lambda: [m(x) for m in three]),
        "atento": learn(lambda: joined.linear(x, three)),
    }


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


if __name__ == "__main__":
    main()
