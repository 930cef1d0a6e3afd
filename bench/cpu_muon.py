"""A step of Muon on lecture 003's matrices, stacked by shape, beside torch's own."""

import torch
from torch.optim import Muon

from atento.models.build import build
from atento.models.config import ModelConfig
from atento.training.muon import StackedMuon
from atento.training.optim import matrices
from measure import interleaved, keep, medians, ratio


def main() -> None:
    torch.manual_seed(0)
    shapes = [weight.shape for weight in matrices(build(ModelConfig(vocabulary=66)))]
    optimizers = {}
    for name, kind in (("stacked", StackedMuon), ("torch", Muon)):
        weights = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        optimizers[name] = kind(weights, lr=0.02, weight_decay=0.1)
    actions = {name: made.step for name, made in optimizers.items()}
    times = interleaved(actions, repeats=200, calls=3)
    found = medians(times)
    keep(
        "muon_cpu",
        {
            "claim": "a stacked step takes less than torch's",
            "matrices": [list(shape) for shape in shapes],
            "milliseconds": {name: round(s * 1e3, 2) for name, s in found.items()},
            "ratio": round(ratio(times, "stacked", "torch"), 3),
        },
    )


if __name__ == "__main__":
    main()
