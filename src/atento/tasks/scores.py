"""How good the translations of a split are: exact match, BLEU and chrF, each with an interval."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atento.tasks.translation_run import TranslationRun

__all__ = ["Interval", "Scores", "interval", "scores"]

DRAWS = 1000  # of the bootstrap
INSIDE = 95  # percent of the draws
LACKING = (
    "BLEU and chrF are sacreBLEU's, which is not installed. To have them: "
    "pip install 'atento[metrics]'"
)
LENGTHS = ((1, 10), (11, 15), (16, 20), (21, 30), (31, None))  # words of a source


@dataclass(frozen=True)
class Interval:
    """A figure, and where 95 of 100 draws with replacement put it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """What a run reaches on a split; BLEU and chrF only where sacreBLEU is installed."""

    split: str
    pairs: int
    loss: float
    exact_match: Interval
    bleu: Interval | None = None
    bleu_signature: str = ""
    bleu_cased: Interval | None = None  # 13a, printed beside where the text is cut into words
    bleu_cased_signature: str = ""
    chrf: Interval | None = None
    chrf_signature: str = ""
    by_length: dict[str, tuple[int, float]] = field(default_factory=dict)

    def flat(self) -> dict[str, Any]:
        """One flat object of it, as `atento eval --json` prints it."""
        name = "val" if self.split == "validation" else self.split
        found: dict[str, Any] = {f"{name}_loss": self.loss, "split": self.split}
        found["pairs"] = self.pairs
        for key in ("exact_match", "bleu", "bleu_cased", "chrf"):
            if (held := getattr(self, key)) is not None:
                found |= {key: held.value, f"{key}_low": held.low, f"{key}_high": held.high}
                if signature := getattr(self, f"{key}_signature", ""):
                    found[f"{key}_signature"] = signature
        for length, (_, bleu) in self.by_length.items():
            found[f"bleu_at_{length}"] = bleu
        return found

    def lines(self) -> Iterator[str]:
        """The same for a terminal."""
        name = "val" if self.split == "validation" else self.split
        yield f"{name}_loss     {self.loss:10.4f}  nats for each target token, ends included"
        yield f"pairs        {self.pairs:10,}  of the {self.split} split"
        yield f"exact_match  {_shown(self.exact_match, 100)}  % of lines are right to the letter"
        for key in ("bleu", "bleu_cased", "chrf"):
            if (held := getattr(self, key)) is not None:
                yield f"{key:11}  {_shown(held)}  {getattr(self, f'{key}_signature')}"
        for length, (count, bleu) in self.by_length.items():
            yield f"  bleu of {length:>5} words {bleu:6.2f}  {count:,} lines"
        if self.bleu is None:
            yield LACKING


def _shown(held: Interval, times: float = 1.0) -> str:
    value, low, high = (times * x for x in (held.value, held.low, held.high))
    return f"{value:10.2f}  [{low:.2f}, {high:.2f}]"


def scores(run: TranslationRun, split: str, beam: int) -> Scores:
    """The scores of a split, translated whole with a beam.

    Claim: tasks/test_scores.py::test_scores_are_sacrebleus_own
    """
    pairs = run.pairs(split)
    sources, wanted = [source for source, _ in pairs], [target for _, target in pairs]
    said = [made[0].text for made in run.translate(sources, beam)]
    loss = run.evaluate(split)
    right = np.array([[one == other] for one, other in zip(said, wanted, strict=True)], dtype=float)
    found: dict[str, Any] = {
        "split": split,
        "pairs": len(pairs),
        "loss": next(iter(loss.values())),
        "exact_match": interval(right, lambda summed: float(summed[0]) / len(pairs)),
    }
    return Scores(**found, **_sacrebleu(sources, said, wanted, run.trained.data.source))


def _sacrebleu(
    sources: Sequence[str], said: Sequence[str], wanted: Sequence[str], name: str
) -> dict[str, Any]:
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return {}
    cut = _is_cut(name)
    found: dict[str, Any] = {}
    metrics = {"bleu": BLEU(tokenize="none" if cut else "13a"), "chrf": CHRF()}
    if cut:
        metrics["bleu_cased"] = BLEU(tokenize="13a")
    for key, metric in metrics.items():
        rows = _statistics(metric, said, wanted)
        found[key] = interval(rows, lambda summed, metric=metric: _score(metric, summed))
        metric.corpus_score(list(said), [list(wanted)])  # the signature says how many references
        found[f"{key}_signature"] = str(metric.get_signature())
        if key == "bleu":
            found["by_length"] = dict(_by_length(metric, rows, sources))
    return found


def _is_cut(name: str) -> bool:
    """Whether a set's text is lowercased and cut into words already."""
    return name.endswith("-tok")


def _statistics(metric: Any, said: Sequence[str], wanted: Sequence[str]) -> NDArray[Any]:
    """What sacreBLEU counts in each line, [N, S]; sums of rows are what it counts in a text."""
    return np.array(metric._extract_corpus_statistics(list(said), [list(wanted)]), dtype=float)


def _score(metric: Any, summed: NDArray[Any]) -> float:
    return float(metric._compute_score_from_stats([int(x) for x in summed]).score)


def _by_length(
    metric: Any, rows: NDArray[Any], sources: Sequence[str]
) -> Iterator[tuple[str, tuple[int, float]]]:
    words = np.array([len(source.split()) for source in sources])
    for first, last in LENGTHS:
        inside = (words >= first) & (words <= (last or words.max()))
        if inside.any():
            name = f"{first}-{last}" if last else f"{first}+"
            yield name, (int(inside.sum()), _score(metric, rows[inside].sum(0)))


def interval(rows: NDArray[Any], score: Any) -> Interval:
    """A figure that follows from the sum of rows [N, S], and its bootstrap interval.

    Of 1,000 draws of N rows with replacement, the middle 95%; the draws are always the same.
    Ref: Koehn 2004, Statistical significance tests for machine translation evaluation.
    Claim: tasks/test_scores.py::test_the_interval_of_a_share_is_that_of_the_binomial
    """
    draw = np.random.Generator(np.random.Philox(key=[0, 0]))
    found = [score(rows[draw.integers(0, len(rows), len(rows))].sum(0)) for _ in range(DRAWS)]
    edge = (100 - INSIDE) / 2
    low, high = np.percentile(found, [edge, 100 - edge])
    return Interval(score(rows.sum(0)), float(low), float(high))
