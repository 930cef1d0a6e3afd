"""The decoder-only model is the lecture's, and knows nothing before it has learned."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from atento.core.cache import EvictingCache, StaticCache
from atento.core.tap import Tap, tapped
from atento.errors import UserError
from atento.models.build import build
from atento.models.config import ModelConfig
from layers.twins import TOLERANCE
from models.plain import opinionated

SMALL = ModelConfig(width=12, layers=3, heads=2, context=7, vocabulary=11)
POSITIONS = ("learned", "sinusoidal", "rotary", "alibi", "none")
KINDS: list[dict[str, Any]] = [
    *({"positions": positions} for positions in POSITIONS),
    {"positions": "rotary", "extension": "yarn", "factor": 3.0, "qk_norm": True, "kv_heads": 1},
    {"positions": "alibi", "mask": "Causal() & Window(2)", "norm": "rms", "tied": False},
    *({"attention": "none", "positions": positions} for positions in ("learned", "sinusoidal")),
]
ENDLESS = [given for given in KINDS if given["positions"] != "learned"]


def made(given: dict[str, Any]) -> nn.Module:
    shape = {"width": 20, "layers": 3, "heads": 2, "context": 7, "vocabulary": 11}
    return opinionated(ModelConfig(**(shape | given)))


def close(one: Tensor, other: Tensor) -> None:
    """To 1e-12 of the largest logit."""
    assert (one - other).abs().max() <= TOLERANCE * other.abs().max()


def test_lecture_003_has_412800_parameters() -> None:
    model = build(ModelConfig(vocabulary=109, context=16, width=128, layers=2, heads=2))
    assert sum(p.numel() for p in model.parameters()) == 412_800


def test_untrained_loss_is_ln_v() -> None:
    torch.manual_seed(0)
    model = build(ModelConfig(vocabulary=109, context=16, width=128, layers=2, heads=2))
    tokens = torch.randint(109, (64, 17))
    loss = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(109), abs=0.1)


@pytest.mark.parametrize("given", [*KINDS, {"mask": "Causal() & Window(2)"}], ids=str)
def test_the_future_changes_nothing_before_it(given: dict[str, Any]) -> None:
    model = made(given)
    tokens = torch.randint(11, (3, 7))
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 11
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


@pytest.mark.parametrize("positions", POSITIONS)
def test_without_attention_earlier_tokens_change_nothing(positions: str) -> None:
    tokens = torch.randint(11, (3, 7))
    tokens[:, :2] = torch.tensor([4, 9])
    exchanged = tokens[:, [1, 0, 2, 3, 4, 5, 6]]
    with_it, without = (
        made({"attention": attention, "positions": positions}) for attention in ("dot", "none")
    )
    assert torch.equal(without(tokens)[:, 2:], without(exchanged)[:, 2:])
    assert not torch.equal(without(tokens)[:, :2], without(exchanged)[:, :2])
    if positions == "none":
        # A second layer hears who came first from what the first one made of it.
        assert not torch.allclose(with_it(tokens)[:, 2:], with_it(exchanged)[:, 2:])
    else:
        assert not torch.equal(with_it(tokens)[:, 2:], with_it(exchanged)[:, 2:])
    assert not [name for name, _ in without.named_modules() if "attention" in name]


def test_a_tied_head_shares_the_embeddings_storage() -> None:
    model = made({})
    tokens = torch.randint(11, (3, 5))
    table = model.embedding.table.weight
    matrices = [p for p in model.parameters() if p.shape == (11, 20)]
    assert [p.data_ptr() for p in matrices] == [table.data_ptr()]
    h, logits = model.states(tokens), model(tokens)
    close(logits, torch.einsum("bnc,vc->bnv", h, table))
    with torch.no_grad():
        table[7] += 0.5  # moves the logit of token 7 by Σ h / 2 where no token 7 was read
    tokens[tokens == 7] = 3
    h = model.states(tokens)
    close(model(tokens)[..., 7], h @ table[7])


def test_a_free_head_has_a_matrix_of_its_own() -> None:
    model = made({"tied": False})
    tokens = torch.randint(11, (3, 5))
    before = model(tokens)
    matrices = {p.data_ptr() for p in model.parameters() if p.shape == (11, 20)}
    assert len(matrices) == 2
    with torch.no_grad():
        model.embedding.head.weight.zero_()
    assert before.any()
    assert not model(tokens).any()


@pytest.mark.parametrize("given", KINDS, ids=str)
def test_cached_in_pieces_equals_whole(given: dict[str, Any]) -> None:
    model = made(given)
    tokens = torch.randint(11, (3, 7))
    for caches in (model.caches(), [StaticCache(13) for _ in model.blocks]):
        pieces = [model(piece, caches) for piece in tokens.split([3, 1, 2, 1], 1)]
        close(torch.cat(pieces, 1), model(tokens))


@pytest.mark.parametrize("given", ENDLESS, ids=str)
def test_beyond_the_context_all_but_learned_positions_go_on(given: dict[str, Any]) -> None:
    model = made(given)
    assert model.limit is None
    tokens = torch.randint(11, (3, 19))
    whole = model(tokens)
    assert whole.isfinite().all()
    close(whole[:, :7], model(tokens[:, :7]))
    caches = model.caches()
    close(torch.cat([model(piece, caches) for piece in tokens.split([5, 1, 13], 1)], 1), whole)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_relative_positions_know_no_place_but_distance(positions: str) -> None:
    model = made({"positions": positions})
    tokens = torch.randint(11, (3, 7))
    close(model(tokens, positions=torch.arange(7) + 1000), model(tokens))


# What the lecture names: GPT-3's, Llama 3's and GPT-4o's contexts.
@pytest.mark.parametrize("limit", [2048, 8192, 128 * 1024])
def test_the_context_limit_is_enforced(limit: int) -> None:
    given = {"width": 2, "layers": 1, "heads": 1, "context": limit, "vocabulary": 3}
    model = build(ModelConfig(**given, attention="none"))
    assert model.limit == limit
    caches = model.caches()
    tokens = torch.zeros(1, limit, dtype=torch.long)
    with torch.inference_mode():
        assert model(tokens, caches).shape == (1, limit, 3)
        for more, held in ((1, caches), (limit + 1, None)):
            says = f"at most {limit} tokens, .*; got {limit + 1}. Give fewer, or train"
            with pytest.raises(UserError, match=says):
                model(torch.zeros(1, more, dtype=torch.long), held)


@pytest.mark.parametrize("given", [{}, {"mask": "Causal() & Window(2)"}], ids=str)
def test_the_limit_holds_with_attention_too(given: dict[str, Any]) -> None:
    model = made(given)
    caches = model.caches()
    model(torch.zeros(1, 7, dtype=torch.long), caches)
    for tokens, held in ((1, caches), (8, None)):
        with pytest.raises(UserError, match=r"at most 7 tokens, .* got 8"):
            model(torch.zeros(1, tokens, dtype=torch.long), held)
    assert len(caches[0]) == 7  # nothing of what was refused is kept


@pytest.mark.parametrize("given", KINDS, ids=str)
def test_a_batch_padded_on_the_left_equals_each_alone(given: dict[str, Any]) -> None:
    model = made(given)
    tokens = torch.randint(11, (3, 7))
    pads = torch.tensor([0, 2, 5])
    places = (torch.arange(7) - pads[:, None]).clamp(min=-1)
    caches = model.caches()
    split = zip(tokens.split([6, 1], 1), places.split([6, 1], 1), strict=True)
    pieces = [model(piece, caches, positions=where) for piece, where in split]
    for padded in (model(tokens, positions=places), torch.cat(pieces, 1)):
        for row, pad in enumerate(pads):
            close(padded[row, pad:], model(tokens[row : row + 1, pad:])[0])


def test_an_evicting_cache_needs_to_be_told_positions() -> None:
    model = made({"positions": "sinusoidal", "mask": "Causal() & Window(4)"})
    tokens = torch.randint(11, (3, 17))
    caches = [EvictingCache(5) for _ in model.blocks]
    with pytest.raises(ValueError, match="positions must be given with an EvictingCache"):
        model(tokens[:, :1], caches)
    said = [model(tokens[:, n : n + 1], caches, positions=torch.tensor([n])) for n in range(17)]
    close(torch.cat(said, 1), model(tokens))


def test_tokens_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"tokens must be Int\[B, N\]; got \[5\]"):
        made({})(torch.zeros(5, dtype=torch.long))


def test_dropout_is_everywhere_in_training_and_nowhere_in_evaluation() -> None:
    model = build(ModelConfig(width=12, layers=1, heads=2, context=7, vocabulary=11, dropout=0.5))
    tokens = torch.randint(11, (3, 7))
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))
    assert model.blocks[0].attention.dropout == 0.5
    drops = [m for m in model.modules() if isinstance(m, torch.nn.Dropout) and m.p == 0.5]
    assert len(drops) == 3  # embeddings, and the two branches


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_every_attention_has_a_named_slot(kind: str) -> None:
    class Names(Tap):
        seen: list[str] = []

        def begin(self, site: object) -> None:
            self.seen.append(site.name)

    model, tap = build(ModelConfig(kind=kind, layers=3, context=7, vocabulary=11)), Names()
    with tapped(model, tap):
        model(torch.zeros(1, 3, dtype=torch.long))
    assert tap.seen == [f"blocks.{n}.attention" for n in range(3)]
