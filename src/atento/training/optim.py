"""The optimizers: which weights belong to which, and what decays."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from atento.training.config import Train
from atento.training.muon import StackedMuon
from atento.training.schedule import rate_at

__all__ = ["adamw", "matrices", "optimizers", "set_rates", "still"]


def optimizers(model: nn.Module, config: Train) -> list[Optimizer]:
    """AdamW for all weights; or Muon for the matrices inside, and AdamW for the rest.

    Claim: test_optim.py::test_muon_has_the_matrices_and_adamw_the_rest
    """
    inside = matrices(model) if config.optimizer == "muon" else []
    rest = adamw(model, config, without=inside)
    if not inside:
        return [rest]
    return [StackedMuon(inside, lr=config.muon_rate, weight_decay=config.decay), rest]


def adamw(model: nn.Module, config: Train, without: Sequence[Tensor] = ()) -> AdamW:
    """AdamW; weights of linear maps decay, while norms, biases and embeddings do not.

    w ← w (1 − ηλ) − η m̂ / (√v̂ + ε); `decay_rest` is the λ of those others.
    Ref: Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2.
    Claim: test_optim.py::test_norms_biases_and_embeddings_do_not_decay
    """
    owners = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    taken = {id(p) for p in without}
    parameters = [p for p in model.parameters() if p.requires_grad and id(p) not in taken]
    groups = [
        {"params": [p for p in parameters if id(p) in owners], "weight_decay": config.decay},
        {
            "params": [p for p in parameters if id(p) not in owners],
            "weight_decay": config.decay_rest,
        },
    ]
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    betas = (0.9, config.beta2)
    return AdamW(groups, lr=config.rate, betas=betas, fused=fused)


def matrices(model: nn.Module) -> list[Tensor]:
    """The weights of linear maps from vectors to vectors: no embedding, and nothing named `head`.

    Ref: Jordan et al. 2024, kellerjordan.github.io/posts/muon.
    """
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    found = {
        id(m.weight): m.weight
        for name, m in model.named_modules()
        if isinstance(m, nn.Linear) and "head" not in name.split(".") and m.weight.requires_grad
    }
    return [weight for key, weight in found.items() if key not in tables]


def still(held: Sequence[Optimizer]) -> None:
    """Makes their rates tensors, which a captured step reads where they lie.

    Claim: test_capture.py::test_still_steps_are_the_loops_own_to_the_bit
    """
    for optimizer in held:
        device = next(p for group in optimizer.param_groups for p in group["params"]).device
        # CUDA's fused AdamW reads float32; on a CPU float64 is what a number would be.
        kind = torch.float32 if device.type == "cuda" else torch.float64
        for group in optimizer.param_groups:
            group["lr"] = torch.tensor(group["lr"], dtype=kind, device=device)


def set_rates(held: Sequence[Optimizer], step: int, config: Train) -> None:
    """The learning rates of a step."""
    for optimizer in held:
        highest = config.muon_rate if isinstance(optimizer, Muon) else config.rate
        for group in optimizer.param_groups:
            rate = rate_at(step, config, highest)
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
