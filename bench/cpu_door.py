"""What the door costs beside torch's own call, and a slot for a tap that is off."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from atento import Causal, Window, attend, tapped
from atento.core.tap import Tap
from measure import interleaved, keep, medians, ratio


class Calls(nn.Module):
    """An attention module with a slot, as atento's layers have it."""

    tap = None

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attend(q, k, v, mask=Causal(), tap=self.tap)


class CallsWithout(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attend(q, k, v, mask=Causal())


def main() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 64, 64) for _ in range(3))
    window = Window(16)
    table = window.dense(64, 64)
    slot, none = Calls(), CallsWithout()
    before = slot(q, k, v)
    with tapped(slot, Tap()):
        watched = slot(q, k, v)
    actions = {
        "attend": lambda: attend(q, k, v),
        "sdpa": lambda: sdpa(q, k, v),
        "attend causal": lambda: attend(q, k, v, mask=Causal()),
        "sdpa causal": lambda: sdpa(q, k, v, is_causal=True),
        "attend window": lambda: attend(q, k, v, mask=window),
        "sdpa dense window": lambda: sdpa(q, k, v, attn_mask=table),
        "slot, off": lambda: slot(q, k, v),
        "no slot": lambda: none(q, k, v),
    }
    times = interleaved(actions, repeats=200, calls=100)
    keep(
        "door_cpu",
        {
            "claim": "attend eager at (1, 2, 64, 64) ≤ 1.10 × raw SDPA; a slot that is off is free",
            "shape": [1, 2, 64, 64],
            "microseconds": {name: round(s * 1e6, 2) for name, s in medians(times).items()},
            "ratio no mask": round(ratio(times, "attend", "sdpa"), 3),
            "ratio causal": round(ratio(times, "attend causal", "sdpa causal"), 3),
            "ratio window, beside the same dense mask": round(
                ratio(times, "attend window", "sdpa dense window"), 3
            ),
            "ratio slot off": round(ratio(times, "slot, off", "no slot"), 3),
            "output before, watched, after: largest difference": [
                float((watched - before).abs().max()),
                float((slot(q, k, v) - before).abs().max()),
            ],
        },
    )


if __name__ == "__main__":
    main()
