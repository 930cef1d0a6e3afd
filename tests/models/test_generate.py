"""Generation: greedy or drawn, cached or not, alone or several at once, the same with a seed."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from atento.errors import UserError
from atento.models.build import build
from atento.models.choose import Sampling
from atento.models.config import ModelConfig
from atento.models.decoder import Decoder
from atento.models.generate import Reader, generate, generate_several

PROMPT = torch.tensor([3, 1, 4])
GREEDY = Sampling(temperature=0)


def made(**given: object) -> Decoder:
    torch.manual_seed(2)
    settings = {"width": 24, "layers": 2, "heads": 2, "context": 7, "vocabulary": 11}
    model = build(ModelConfig(**(settings | given)))
    for parameter in model.parameters():  # so that it has opinions
        parameter.data *= 3
    return model


@pytest.fixture(scope="module")
def model() -> Decoder:
    return made(dropout=0.5)


@pytest.fixture(scope="module")
def precise() -> Decoder:
    return made().double().eval()


def appended(model: Decoder, tokens: int, end: int = -1) -> list[int]:
    """The oracle: the whole window again for each token, and the argmax of its last row."""
    seen = PROMPT.tolist()
    for _ in range(tokens):
        best = int(model(torch.tensor([seen[-7:]]))[0, -1].argmax())
        if best == end:
            break
        seen.append(best)
    return seen[3:]


@pytest.mark.parametrize("how", [GREEDY, Sampling(seed=5), Sampling(top_p=0.9, seed=5)])
def test_cached_generation_equals_uncached(model: Decoder, how: Sampling) -> None:
    said = [list(generate(model, PROMPT, 23, how, cached=cached)) for cached in (True, False)]
    assert said[0] == said[1]
    assert len(said[0]) == 23  # far beyond the context of 7: the window slides


@pytest.mark.parametrize(
    "given",
    [
        {"positions": "sinusoidal"},
        {"positions": "rotary", "kv_heads": 1},
        {"positions": "rotary", "extension": "yarn", "factor": 2.0},
        {"positions": "alibi"},
        {"positions": "none", "mask": "Causal() & Window(2)"},
        {"attention": "none"},
    ],
)
def test_whatever_the_positions_a_sliding_window_equals_uncached(given: dict[str, object]) -> None:
    model = made(**given).double().eval()
    for how in (GREEDY, Sampling(seed=3)):
        said = [list(generate(model, PROMPT, 19, how, cached=cached)) for cached in (True, False)]
        assert said[0] == said[1]
    assert list(generate(model, PROMPT, 19, GREEDY)) == appended(model, 19)


def test_an_encoder_foretells_nothing() -> None:
    with pytest.raises(UserError, match="as a decoder does; got Encoder"):
        generate(build(ModelConfig(kind="encoder", vocabulary=11)), PROMPT, 3)


def test_repetition_counts_what_the_window_has_left_behind(precise: Decoder) -> None:
    how = Sampling(temperature=0, repetition=1e9)
    said = list(generate(precise, PROMPT, 8, how))
    seen, model = PROMPT.tolist(), precise
    for token in said:
        logits = model(torch.tensor([seen[-7:]]))[0, -1]
        for old in set(seen):
            logits[old] = logits[old] / 1e9 if logits[old] > 0 else logits[old] * 1e9
        assert token == int(logits.argmax())
        seen.append(token)


@pytest.mark.parametrize("cached", [True, False])
def test_greedy_append_decoding_stops_at_the_end_token(precise: Decoder, cached: bool) -> None:
    whole = appended(precise, 19)
    assert list(generate(precise, PROMPT, 19, GREEDY, cached=cached)) == whole
    end = whole[5]
    until = appended(precise, 19, end)
    assert 0 < len(until) < 19
    assert list(generate(precise, PROMPT, 19, GREEDY, ends=[end], cached=cached)) == until


@torch.inference_mode()
def test_cached_logits_equal_uncached_in_float64(precise: Decoder) -> None:
    cached, plain = (Reader(precise, PROMPT[None], cached=c) for c in (True, False))
    tokens = appended(precise, 19)
    for n, token in enumerate(tokens):
        seen = torch.tensor([(PROMPT.tolist() + tokens)[: 3 + n][-7:]])
        expected = precise(seen)[:, -1]
        for reader in (cached, plain):
            assert (reader.logits() - expected).abs().max() <= 1e-12
            reader.read([token])


def test_the_cache_reads_each_token_once_within_the_context(precise: Decoder) -> None:
    widths: list[int] = []

    class Counted(nn.Module):
        context, caches = precise.context, precise.caches

        def __init__(self) -> None:
            super().__init__()
            self.inner = precise

        def forward(self, tokens: torch.Tensor, caches: object = None) -> torch.Tensor:
            widths.append(tokens.shape[1])
            return self.inner(tokens, caches)

    list(generate(Counted(), PROMPT, 8, GREEDY))
    assert widths == [3, 1, 1, 1, 1, 7, 7, 7]


def test_a_window_that_may_not_slide_is_an_error(model: Decoder) -> None:
    assert len(list(generate(model, PROMPT, 5, GREEDY, slide=False))) == 5
    with pytest.raises(UserError, match=r"fit the 7 tokens.*got 3 \+ 6. Say at most 5"):
        generate(model, PROMPT, 6, GREEDY, slide=False)


def test_greedy_leaves_the_mode_as_it_was(model: Decoder) -> None:
    model.train()
    said = list(generate(model, PROMPT, 11, GREEDY))
    assert model.training
    model.eval()
    assert said == appended(model, 11)
    model.train()


def test_a_long_prompt_is_seen_by_its_end(model: Decoder) -> None:
    long, how = torch.arange(40) % 11, Sampling(seed=1)
    assert list(generate(model, long, 5, how)) == list(generate(model, long[-7:], 5, how))


def test_a_seed_repeats_and_touches_no_other_generator(model: Decoder) -> None:
    state = torch.get_rng_state()
    first, again, other = (list(generate(model, PROMPT, 40, Sampling(seed=s))) for s in (7, 7, 8))
    assert first == again != other
    list(generate(model, PROMPT, 5, GREEDY))
    assert torch.equal(torch.get_rng_state(), state)


def test_several_samples_are_those_of_the_seeds_that_follow(precise: Decoder) -> None:
    several = list(generate_several(precise, PROMPT, 17, Sampling(seed=5), samples=3))
    for n in range(3):
        alone = list(generate(precise, PROMPT, 17, Sampling(seed=5 + n)))
        assert [tokens[n] for tokens in several] == alone
    assert len({tuple(column) for column in zip(*several, strict=True)}) == 3


def test_a_sample_that_has_ended_says_none_while_others_go_on(precise: Decoder) -> None:
    whole = list(generate_several(precise, PROMPT, 60, Sampling(seed=5), samples=3))
    end = 4
    columns = []
    for n in range(3):
        said = [tokens[n] for tokens in whole]
        assert end in said
        cut = said.index(end)
        columns.append(said[:cut] + [None] * (60 - cut))
    longest = max(sum(token is not None for token in column) for column in columns)
    expected = [list(tokens) for tokens in zip(*columns, strict=True)][:longest]
    how = Sampling(seed=5)
    assert list(generate_several(precise, PROMPT, 60, how, samples=3, ends={end})) == expected


@pytest.mark.parametrize("how", [Sampling(top_k=1), Sampling(temperature=1e-30)])
def test_what_leaves_one_token_is_greedy(model: Decoder, how: Sampling) -> None:
    assert list(generate(model, PROMPT, 9, how)) == list(generate(model, PROMPT, 9, GREEDY))


def test_drawn_tokens_follow_the_softmax(model: Decoder) -> None:
    model.eval()
    logits = model(PROMPT[None])[0, -1].double() / 0.7
    logits[2] = -torch.inf
    kept = logits.topk(4).indices
    shares = torch.zeros(11).double()
    shares[kept] = (logits[kept] - logits[kept].logsumexp(0)).exp()
    counts = torch.zeros(11).double()
    how = Sampling(temperature=0.7, top_k=4, never=(2,), seed=0)
    for token in next(generate_several(model, PROMPT, 1, how, samples=600)):
        counts[token] += 1
    assert (counts[shares == 0] == 0).all()
    assert (counts / 600 - shares).abs().max() < 0.08


def test_it_streams(model: Decoder) -> None:
    stream = generate(model, PROMPT, 10**9, Sampling(seed=0))
    assert isinstance(stream, Iterator)
    assert 0 <= next(stream) < 11


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tokens": -1}, "tokens"),
        ({"samples": 0}, "samples"),
        ({"prompt": torch.zeros(0, dtype=torch.long)}, "prompt"),
        ({"model": nn.Linear(2, 2)}, "model must foretell"),
    ],
)
def test_impossible_wishes_are_refused(model: Decoder, given: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):  # before anything is said
        generate_several(**({"model": model, "prompt": PROMPT, "tokens": 1} | given))
