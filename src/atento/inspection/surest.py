"""The one head that is shown where there is room for one."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from atento.core.maps import attention_map
from atento.core.tap import Site, Tap, tapped

__all__ = ["Shown", "surest"]


@dataclass(frozen=True)
class Shown:
    """A head's weights on a sentence, [N][N] from row to column, and where it is, from 1."""

    layer: int
    head: int
    weights: list[list[float]]
    surety: float


class _Maps(Tap):
    """The weights of every call, in the order of the layers."""

    def __init__(self) -> None:
        self.found: list[Tensor] = []  # [H, N, N] each

    def inputs(self, site: Site, q: Tensor, k: Tensor, v: Tensor) -> None:
        made = attention_map(q, k, mask=site.mask, bias=site.bias, score=site.score, at=site.at)
        assert isinstance(made, Tensor)
        self.found.append(made[0].float().cpu())


@torch.inference_mode()
def surest(model: nn.Module, tokens: Tensor) -> Shown | None:
    """The head that is surest of a token other than the one that asks; None without attention.

    tokens: Int[1, N]. With weights A of a head, its surety is the mean over rows i of
    max over j ≠ i of A_ij; of equal heads the first is taken. It says where a head looks, and does
    not say that the model's answer depends on it.
    Claim: test_surest.py::test_the_head_that_looks_elsewhere_with_most_weight_is_shown
    """
    if not any(hasattr(module, "tap") for module in model.modules()) or tokens.shape[1] < 2:
        return None
    maps, was_training = _Maps(), model.training
    model.eval()
    try:
        with tapped(model, maps):
            model(tokens)
    finally:
        model.train(was_training)
    stacked = torch.stack(maps.found)  # [layers, H, N, N]
    elsewhere = stacked.masked_fill(torch.eye(tokens.shape[1], dtype=torch.bool), 0.0)
    sureties = elsewhere.amax(-1).mean(-1)
    best = int(sureties.flatten().argmax())
    layer, head = divmod(best, sureties.shape[1])
    weights: list[list[float]] = stacked[layer, head].tolist()
    return Shown(layer + 1, head + 1, weights, float(sureties[layer, head]))
