"""Beam search beside a plain one: one source, every prefix read anew, Python's lists."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from atento.core.tap import tapped
from atento.errors import UserError
from atento.models.beam import Beam, Hypothesis, beam_search
from atento.models.build import build
from atento.models.config import ModelConfig
from layers.twins import TOLERANCE, Seen

B, N, V, PAD, END = 3, 5, 11, 0, 10
MODELS: list[dict[str, Any]] = [
    {"kind": "encoder-decoder", "positions": "rotary", "width": 12},
    {"kind": "encoder-decoder", "context": 11, "width": 12, "placement": "post"},
    {"kind": "recurrent", "attention": "additive", "unit": "gru", "width": 10},
    {"kind": "recurrent", "attention": "dot", "fed": True, "width": 10, "bidirectional": True},
]
DEAF = {"kind": "recurrent", "attention": "none", "width": 10}
LENGTHS = torch.tensor([5, 1, 4])
SOURCE = torch.randint(1, END, (B, N), generator=torch.Generator().manual_seed(4))
HOWS = [
    Beam(size=1, never=(PAD,)),
    Beam(size=5, nbest=5, ratio=1.0, extra=4, never=(PAD,)),
    Beam(size=3, nbest=2, length_penalty=0.0, ratio=0.5, extra=2, never=(PAD, 3)),
    Beam(size=4, nbest=4, length_penalty=0.6, ratio=1.0, extra=3),
]


def made(given: dict[str, Any], spread: float = 0.7) -> nn.Module:
    torch.manual_seed(0)
    model = build(ModelConfig(**{"vocabulary": V, "context": 40} | given)).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=spread)
    return model.eval()


def next_log_chances(model: nn.Module, source: Tensor, tokens: list[int], how: Beam) -> Tensor:
    logits = model(source[None], torch.tensor([[END, *tokens]]))[0, -1]
    log_chances = logits - logits.exp().sum().log()
    log_chances[list(how.never)] = -math.inf
    return log_chances


def looked_at(model: nn.Module, source: Tensor, tokens: list[int]) -> Tensor:
    """The weights at each token and the end: heads averaged, of the slot that says so."""
    seen = Seen()
    with tapped(model, seen):
        model(source[None], torch.tensor([[END, *tokens]]))
    names = zip(seen.names, seen.all_weights, strict=True)
    return torch.cat([w.mean(1)[0] for name, w in names if name == model.aligned])


def plain_search(model: nn.Module, source: Tensor, how: Beam) -> list[Hypothesis]:
    live, found = [([], 0.0)], []
    longest = int(how.ratio * len(source) + how.extra)
    if model.limit is not None:
        longest = min(longest, model.limit - 1)
    for length in range(longest + 1):
        ways = []
        for tokens, chance in live:
            for token, more in enumerate(next_log_chances(model, source, tokens, how).tolist()):
                if token == END or length < longest:
                    ways.append((chance + more, tokens, token))
        ways = sorted((w for w in ways if w[0] > -math.inf), key=lambda w: -w[0])[: 2 * how.size]
        for chance, tokens, token in ways[: how.size]:
            if token == END and len(found) < how.size:
                score = chance / (length + 1) ** how.length_penalty
                if how.coverage:
                    covered = looked_at(model, source, tokens).sum(0).clamp(max=1)
                    score += how.coverage * covered.log().sum().item()
                found.append(Hypothesis(tokens, score, chance))
        if len(found) >= how.size:
            break
        live = [([*tokens, token], c) for c, tokens, token in ways if token != END][: how.size]
    return sorted(found, key=lambda one: -one.score)[: how.nbest]


def alike(ours: list[Hypothesis], plain: list[Hypothesis]) -> None:
    assert [one.tokens for one in ours] == [one.tokens for one in plain]
    for one, other in zip(ours, plain, strict=True):
        assert one.score == pytest.approx(other.score, rel=TOLERANCE)
        assert one.log_chance == pytest.approx(other.log_chance, rel=TOLERANCE)


@pytest.mark.parametrize("how", HOWS, ids=range(len(HOWS)))
@pytest.mark.parametrize("given", [*MODELS, DEAF], ids=str)
def test_batched_and_cached_equals_a_plain_search(given: dict[str, Any], how: Beam) -> None:
    model = made(given)
    with torch.no_grad():
        plain = [plain_search(model, SOURCE[b, : LENGTHS[b]], how) for b in range(B)]
    for cached in (True, False):
        found = beam_search(model, SOURCE, LENGTHS, how, end=END, cached=cached)
        for ours, others in zip(found, plain, strict=True):
            alike(ours, others)


def test_the_searches_that_are_compared_end_early_late_and_never() -> None:
    """Or the equality would say little: lengths differ, some are cut, and beams reorder."""
    made_up = [len(h.tokens) for g in MODELS for h in searched(g, HOWS[1])]
    assert len(set(made_up)) > 5
    greedy = [h.tokens for g in MODELS for h in searched(g, HOWS[0])]
    best = [h.tokens for g in MODELS for h in searched(g, Beam(size=5, never=(PAD,)))]
    assert greedy != best
    assert any(len(tokens) == 2 * N + 10 for tokens in greedy)


def searched(given: dict[str, Any], how: Beam) -> list[Hypothesis]:
    found = beam_search(made(given), SOURCE, LENGTHS, how, end=END)
    return list(itertools.chain.from_iterable(found))


@pytest.mark.parametrize("given", MODELS, ids=str)
def test_coverage_and_alignments_are_of_the_weights_on_the_source(given: dict[str, Any]) -> None:
    model = made(given)
    how = Beam(size=3, nbest=3, coverage=0.4, never=(PAD,), aligned=True, extra=2, ratio=0.5)
    found = beam_search(model, SOURCE, LENGTHS, how, end=END)
    with torch.no_grad():
        for b in range(B):
            source = SOURCE[b, : LENGTHS[b]]
            alike(found[b], plain_search(model, source, how))
            for one in found[b]:
                expected = looked_at(model, source, one.tokens)
                assert one.alignment.shape == (len(one.tokens) + 1, LENGTHS[b])
                torch.testing.assert_close(one.alignment, expected, rtol=0, atol=1e-12)


def test_greedy_is_the_argmax_of_the_last_row_until_the_end() -> None:
    model = made(MODELS[0])
    ((found,),) = beam_search(model, SOURCE[:1], LENGTHS[:1], Beam(size=1), end=END)
    tokens: list[int] = []
    while len(tokens) < 2 * N + 10:
        token = int(model(SOURCE[:1], torch.tensor([[END, *tokens]]))[0, -1].argmax())
        if token == END:
            break
        tokens.append(token)
    assert found.tokens == tokens


def test_a_wider_beam_finds_the_likeliest_text_where_greedy_does_not() -> None:
    """All texts of at most 2 tokens, counted out."""
    model = made(MODELS[0], spread=0.9)
    how, missed = Beam(size=V**2, length_penalty=0.0, ratio=0.0, extra=2), 0
    with torch.no_grad():
        for b in range(B):
            source, lengths = SOURCE[b : b + 1, : LENGTHS[b]], LENGTHS[b : b + 1]
            every, chances = [], []
            for n in range(3):
                texts = torch.tensor(
                    list(itertools.product(range(END), repeat=n)), dtype=torch.long
                )
                told = torch.nn.functional.pad(texts, (1, 0), value=END)
                asked = torch.nn.functional.pad(texts, (0, 1), value=END)
                logits = model(source.expand(len(texts), -1), told)
                rows = (logits - logits.logsumexp(-1, True)).gather(-1, asked[..., None])
                every += texts.tolist()
                chances += rows.sum((1, 2)).tolist()
            best = max(range(len(every)), key=chances.__getitem__)
            ((found,),) = beam_search(model, source, lengths, how, end=END)
            assert found.tokens == every[best]
            assert found.log_chance == pytest.approx(chances[best], rel=1e-12)
            ((greedy,),) = beam_search(model, source, lengths, replace(how, size=1), end=END)
            missed += greedy.tokens != every[best]
    assert missed


def test_order_and_count_of_the_sources_are_kept() -> None:
    model, how = made(MODELS[1]), Beam(size=3, never=(PAD,))
    rows = torch.tensor([2, 0, 1, 1, 2])
    whole = beam_search(model, SOURCE, LENGTHS, how, end=END)
    mixed = beam_search(model, SOURCE[rows], LENGTHS[rows], how, end=END)
    assert [one.tokens for (one,) in mixed] == [whole[r][0].tokens for r in rows.tolist()]
    assert beam_search(model, SOURCE[:0], LENGTHS[:0], how, end=END) == []


def test_the_models_mode_and_taps_are_as_they_were() -> None:
    model = made(MODELS[0]).train()
    beam_search(model, SOURCE, LENGTHS, Beam(size=2, aligned=True), end=END)
    assert model.training
    assert model.get_submodule(model.aligned).tap is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": 0}, "beam must be at least 1"),
        ({"size": 2, "nbest": 3}, "nbest .* at most the beam; got 3 of 2. Try --beam 3"),
        ({"length_penalty": -1.0}, "length_penalty must be 0 or more"),
        ({"coverage": float("nan")}, "coverage must be 0 or more"),
        ({"ratio": float("inf")}, "ratio must be 0 or more"),
        ({"extra": 0}, "extra must be at least 1"),
    ],
)
def test_searches_that_cannot_be_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Beam(**given)


def test_without_attention_there_is_nothing_to_cover_or_align() -> None:
    for how in (Beam(coverage=0.1), Beam(aligned=True)):
        with pytest.raises(UserError, match="this model has no attention"):
            beam_search(made(DEAF), SOURCE, LENGTHS, how, end=END)
