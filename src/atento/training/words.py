"""How a recipe trains, as a sentence: what its numbers mean to the optimizer."""

from atento.training.config import Train

__all__ = ["training_words"]


def training_words(config: Train, *, paired: bool = False) -> str:
    """Optimizer, rates, what decays, the schedule, and what else is done to steps and weights.

    Where it is trained on pairs, a batch is so many tokens.

    Claim: test_words.py::test_every_setting_of_the_optimizer_is_said
    """
    parts = [
        *_optimizers(config),
        _schedule(config),
        f"gradient norm ≤ {config.clip:g}" if config.clip else "",
        f"weights averaged with memory {config.ema:g}" if config.ema else "",
        f"targets smoothed by {config.smoothing:g}" if config.smoothing else "",
        f"{config.steps:,} steps of {_batch(config, paired)}",
    ]
    return " · ".join(part for part in parts if part)


def _optimizers(config: Train) -> list[str]:
    adamw = f"AdamW, β 0.9 and {config.beta2:g}, rate {config.rate:g}"
    rest = f"{config.decay_rest:g} elsewhere"
    if config.optimizer == "muon":
        return [
            f"Muon for the matrices inside, rate {config.muon_rate:g}, decay {config.decay:g}",
            f"{adamw} for the rest, decay {config.decay:g} of linear maps, {rest}",
        ]
    return [f"{adamw}, decay {config.decay:g} of linear maps, {rest}"]


def _schedule(config: Train) -> str:
    warmup = min(config.warmup, config.steps // 5)
    rise = f"{warmup} steps of warmup, " if warmup else ""
    if config.schedule == "constant":
        return f"{rise}then constant" if rise else "constant"
    held = f"the full rate for {config.stable:.0%} of the steps, " if config.stable else ""
    if config.schedule == "inverse-sqrt":
        return f"{rise}{held}then as 1 / √step, at least {config.floor:g} of the rate"
    return f"{rise}{held}{config.schedule} to {config.floor:g} of the rate"


def _batch(config: Train, paired: bool) -> str:
    each = f"{config.tokens:,} tokens of pairs" if paired else f"{config.batch} windows"
    return f"{config.accumulate} × {each}" if config.accumulate > 1 else each
