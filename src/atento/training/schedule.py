"""The learning rate of each step."""

import math

from atento.training.config import Train

__all__ = ["rate_at"]


def rate_at(step: int, config: Train, highest: float | None = None) -> float:
    """A straight rise over the warmup to the rate, then what the schedule says.

    cosine: half a cosine, and linear: a straight line, down to floor · rate at the last step;
    inverse-sqrt: √(w / t) of the rate at the t-th step, counted from 1, for a rise of w steps, and
    never less than floor · rate; constant: the rate. Steps count from 0, so that the step numbered
    `warmup` is the first after the rise. The warmup takes a fifth of the steps at most. The fall
    begins after it, or after the `stable` share of the steps where that is later. `highest` stands
    for the rate.
    Ref: Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5 (cosine); Hu et al. 2024,
    arXiv:2404.06395, section 4 (a stable share before the fall); Vaswani et al. 2017,
    arXiv:1706.03762, equation 3 (inverse-sqrt).
    Claim: test_schedule.py::test_the_peak_is_exactly_at_the_end_of_the_warmup
    Claim: test_schedule.py::test_the_inverse_square_root_by_hand
    """
    rate = config.rate if highest is None else highest
    warmup = min(config.warmup, config.steps // 5)
    if step < warmup:
        return rate * (step + 1) / warmup
    last = config.steps - 1
    begin = min(max(warmup, round(config.stable * config.steps)), last)
    if step < begin:
        return rate
    done = min((step - begin) / max(1, last - begin), 1.0)
    match config.schedule:
        case "cosine":
            left = (1 + math.cos(math.pi * done)) / 2
        case "linear":
            left = 1 - done
        case "inverse-sqrt":
            return rate * max(config.floor, math.sqrt(max(begin, 1) / (step + 1)))
        case _:
            return rate
    return rate * (config.floor + (1 - config.floor) * left)
