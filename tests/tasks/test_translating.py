"""Lines in, lines out: none is lost, none changes places, and strange words are passed on."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import atento
from atento.data.known import Known
from atento.data.tokenizers import Characters
from atento.models.beam import Beam
from atento.tasks.translating import Sides, translated
from tasks.test_translation import MODELS, train

LINES = ["um", "", "gato mar um dois", "   ", "sol", "um", "mar sol bola gato x x", "x"]


class Echo(nn.Module):
    """Says its source again, token by token, in an order of its own; looks at nothing."""

    limit: int | None = None
    aligned: str | None = None

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.vocabulary = vocabulary

    def encode(self, source: Tensor, lengths: Tensor) -> "Heard":
        return Heard(source)

    def begin(self, heard: "Heard") -> "Begun":
        return Begun(torch.zeros(len(heard.source), dtype=torch.long))

    def decode(self, target: Tensor, heard: "Heard", begun: "Begun") -> Tensor:
        rows = torch.arange(len(heard.source))
        place = begun.count.clamp(max=heard.source.shape[1] - 1)
        said = heard.source[rows, place]
        begun.count += 1
        return 9.0 * nn.functional.one_hot(said, self.vocabulary).float()[:, None]


class Heard:
    def __init__(self, source: Tensor) -> None:
        self.source = source

    def select(self, rows: Tensor) -> "Heard":
        return Heard(self.source[rows])


class Begun:
    def __init__(self, count: Tensor) -> None:
        self.count = count

    def select(self, rows: Tensor) -> None:
        self.count = self.count[rows]


def echo(limit: int | None = None) -> tuple[Echo, Sides]:
    letters = "abcdefghijklmnopqrstuvwxyz "
    side = Known(Characters(letters), letters)
    model = Echo(len(side))
    model.limit = limit
    return model, Sides(side, side)


@pytest.mark.parametrize("size", [1, 3])
def test_no_line_is_lost_or_out_of_order(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atento.tasks.translating.AT_ONCE", 60)
    model, sides = echo()
    draw = torch.Generator().manual_seed(1)
    lines = [
        "" if n % 7 == 0 else "ab cdefghij"[: int(torch.randint(1, 12, (), generator=draw))]
        for n in range(101)
    ]
    lines[13] = "a Ω b 漢字"
    told: list[int] = []
    found = translated(model, sides, lines, Beam(size=size), told.append)
    assert [made[0].text for made in found] == lines
    assert sum(told) == len(lines)


def test_a_word_of_an_unseen_script_stands_in_the_output() -> None:
    model, sides = echo()
    lines = [f"uma {word} boa" for word in ("漢字", "Ωμ", "дом", "שלום")]
    for line, made in zip(lines, translated(model, sides, lines, Beam(size=2)), strict=True):
        assert made[0].text == line
        assert (made[0].strange, made[0].survived) == (1, 1)


def test_no_placeholder_is_said_where_the_source_has_none(tmp_path: Path) -> None:
    run = train(tmp_path / "run", **{"model.attention": "additive"})
    likely, target = run.translate("um gato", beam=1)[0][0].text[0], run.sides.target
    with torch.no_grad():  # where it may say a placeholder, it now does so first
        table = run.model.embedding.table.weight
        table[target.placeholder] = 3 * table[int(target.encode(likely)[0][0])]
    found = run.translate(["um gato", "x", "um Ω sol"], beam=3, nbest=3)
    assert any("Ω" in one.text for one in found[2])
    assert all(set(one.text) <= set("UMDOISGATBLRX ") for made in found[:2] for one in made)
    assert all("" not in one.pieces for made in found[:2] for one in made)


def test_a_line_longer_than_the_positions_is_cut_and_counted() -> None:
    model, sides = echo(limit=5)
    found = translated(model, sides, ["abcdefg", "ab"], Beam(size=1))
    assert [(made[0].text, made[0].cut) for made in found] == [("abcd", 3), ("ab", 0)]


@pytest.mark.parametrize("given", MODELS)
def test_a_run_translates_in_order_and_shows_where_it_looked(
    given: dict[str, Any], tmp_path: Path
) -> None:
    train(tmp_path / "run", **given)
    run = atento.load(tmp_path / "run")
    found = run.translate(LINES, beam=3, nbest=2)
    alone = [run.translate(line, beam=3, nbest=2)[0] for line in LINES]
    for line, made, one in zip(LINES, found, alone, strict=True):
        assert [m.text for m in made] == [m.text for m in one]
        if not line.strip():
            assert made == one
            assert [m.text for m in made] == [""]
            continue
        assert len(made) == 2
        assert made[0].score >= made[1].score
        assert "".join(made[0].pieces) == made[0].text
        assert "".join(made[0].source_pieces) == line
        if given.get("model.attention") == "none":
            assert made[0].alignment is None
            continue
        weights = made[0].alignment
        assert weights.shape == (len(made[0].pieces) + 1, len(line) + 1)
        assert torch.allclose(weights.sum(-1), torch.ones(len(weights)), atol=1e-5)
