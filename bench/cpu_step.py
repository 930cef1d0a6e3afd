"""A training step of lecture 003's model beside transformers' GPT-2 and torch's own encoder.

Each peer runs in each setting that a user would try: float32 or bfloat16 autocast, eager or
compiled. All learn from the same batches, by fused AdamW with the same rates and clipping. With
`recipe` atento takes the recipe's own optimizer, which is dearer and learns more in a step.
"""

import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.functional import scaled_dot_product_attention as sdpa

from atento import Causal, attend
from atento.core.dropout import dropout
from atento.data.batches import random_windows
from atento.data.corpus import corpus
from atento.models.config import ModelConfig
from atento.tasks.language import Language, language, validation_loss
from atento.tasks.recipe import Recipe
from atento.training.loop import fit
from atento.training.optim import adamw
from atento.training.precision import precision_for
from atento.training.progress import Quiet
from atento.training.schedule import rate_at
from measure import interleaved, keep, medians, ratio

OWN = sys.argv[1:] == ["recipe"]
RECIPE = Recipe.read("shakespeare-lecture")
TURNS, CALLS = 30, 10  # the first turns, in which peers are compiled, are few among many


def main() -> None:
    torch.manual_seed(0)
    text, settings = corpus(RECIPE.data), RECIPE.train
    task = language(text, RECIPE.model, settings, torch.device("cpu"))
    peers = _peers(task)
    turns = Turns(peers)
    if not OWN:
        settings = replace(settings, optimizer="adamw")
    never = {"evaluate_every": 10**9, "checkpoint_every": 10**9, "steps": TURNS * CALLS}
    with tempfile.TemporaryDirectory() as folder:
        fit(task, replace(settings, **never), Path(folder), "", turns)
    times = turns.times
    parts = {part: medians(interleaved(pair, 30, 5)) for part, pair in PARTS.items()}
    found = medians(times)
    best = {p: min((n for n in peers if n.startswith(p)), key=found.__getitem__) for p in PEERS}
    judged = {"atento": task.model} | {name: peers[name].model for name in best.values()}
    keep(
        "step_recipe_cpu" if OWN else "step_cpu",
        {
            "measured": "a training step of lecture 003's model beside transformers' GPT-2 of its "
            "shape and torch.nn.TransformerEncoder, each in its best setting; each loss after as "
            "many steps, over the whole validation split",
            "goal": "2.5 times as fast as either",
            "versions": {name: version(name) for name in ("torch", "transformers")},
            "atento's optimizer": settings.optimizer,
            "atento's precision": precision_for(settings.precision, task.model),
            "milliseconds": {name: round(s * 1e3, 2) for name, s in found.items()},
            "best setting": best,
            "times as fast": {p: round(ratio(times, n, "atento"), 2) for p, n in best.items()},
            "microseconds of parts": {
                part: {name: round(s * 1e6) for name, s in pair.items()}
                for part, pair in parts.items()
            },
            "steps": TURNS * CALLS,
            "validation loss": {
                name: round(validation_loss(model, task.validation, task.config.context), 4)
                for name, model in judged.items()
            },
        },
    )


def _learn(attention: Callable[..., Tensor]) -> Callable[[], object]:
    q, k, v = (torch.randn(64, 2, 16, 64).bfloat16().requires_grad_() for _ in range(3))
    return lambda: attention(q, k, v).sum().backward()


X = torch.randn(64, 16, 128)
PARTS: dict[str, dict[str, Callable[[], object]]] = {
    "dropout of [64, 16, 128]": {
        "torch": lambda: torch.dropout(X, 0.2, True),
        "atento": lambda: dropout(X, 0.2),
    },
    "attention of [64, 2, 16, 64], bfloat16, dropout .2, forward and backward": {
        "torch": _learn(lambda *x: sdpa(*x, dropout_p=0.2, is_causal=True)),
        "atento": _learn(lambda *x: attend(*x, dropout=0.2, mask=Causal())),
    },
    "the same without dropout": {
        "torch": _learn(lambda *x: sdpa(*x, is_causal=True)),
        "atento": _learn(lambda *x: attend(*x, mask=Causal())),
    },
}


def _peers(task: Language) -> "dict[str, Plain]":
    """Each peer in each setting."""
    made = {}
    for (peer, build), precision, mode in itertools.product(
        PEERS.items(), ("float32", "bfloat16"), ("eager", "compiled")
    ):
        torch.manual_seed(0)
        name = f"{peer}, {precision}, {mode}"
        made[name] = Plain(build(task.config), task, precision, mode == "compiled")
    return made


class Turns(Quiet):
    """Between every few steps of the loop that trains, as many of each peer, all timed."""

    def __init__(self, peers: "dict[str, Plain]") -> None:
        self.peers, self.done = peers, 0
        self.times: dict[str, list[float]] = {name: [] for name in ("atento", *peers)}

    def begin(self, step: int, steps: int) -> None:
        self.since = time.perf_counter()

    def step(self) -> None:
        self.done += 1
        if self.done % CALLS == 0:
            self.times["atento"].append((time.perf_counter() - self.since) / CALLS)
            for name, peer in self.peers.items():
                since = time.perf_counter()
                for _ in range(CALLS):
                    peer()
                self.times[name].append((time.perf_counter() - since) / CALLS)
            self.since = time.perf_counter()


class GPT2(nn.Module):
    """transformers' GPT-2, of the recipe's shape; its activation the same GELU as ours."""

    def __init__(self, config: ModelConfig) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        p = config.dropout
        self.inner = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=config.vocabulary,
                n_positions=config.context,
                n_embd=config.width,
                n_layer=config.layers,
                n_head=config.heads,
                activation_function="gelu",
                resid_pdrop=p,
                embd_pdrop=p,
                attn_pdrop=p,
                use_cache=False,
            )
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(tokens).logits


class Encoder(nn.Module):
    """torch.nn.TransformerEncoder with a causal mask, learned positions and a tied head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, p = config.width, config.dropout
        self.tokens = nn.Embedding(config.vocabulary, width)
        self.positions = nn.Embedding(config.context, width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.drop = nn.Dropout(p)
        layer = nn.TransformerEncoderLayer(
            width, config.heads, 4 * width, p, "gelu", batch_first=True, norm_first=True
        )
        layer.dropout = nn.Identity()  # within the feed-forward: the recipe has none there
        self.inner = nn.TransformerEncoder(
            layer, config.layers, nn.LayerNorm(width), enable_nested_tensor=False
        )
        for p_ in self.inner.parameters():
            if p_.dim() == 2:
                nn.init.normal_(p_, std=0.02)
        mask = nn.Transformer.generate_square_subsequent_mask(config.context)
        self.register_buffer("mask", mask)

    def forward(self, tokens: Tensor) -> Tensor:
        n = tokens.shape[1]
        h = self.tokens(tokens) + self.positions.weight[:n]
        h = self.inner(self.drop(h), mask=self.mask[:n, :n], is_causal=True)
        return nn.functional.linear(h, self.tokens.weight)


PEERS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "transformers": GPT2,
    "torch.nn": Encoder,
}


class Plain:
    """The loop that one writes by hand, a step a call."""

    def __init__(self, model: nn.Module, task: Language, precision: str, compiled: bool) -> None:
        self.model, self.task, self.step = model.train(), task, 0
        self.run = torch.compile(model) if compiled else model
        self.half = precision == "bfloat16"
        self.optimizer = adamw(model, RECIPE.train)

    def __call__(self) -> None:
        settings, task = RECIPE.train, self.task
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.step, settings)
        windows = torch.from_numpy(
            random_windows(task.training, task.config.context, task.batch, 0, self.step)
        )
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            logits = self.run(windows[:, :-1])
            loss = cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1


if __name__ == "__main__":
    main()
