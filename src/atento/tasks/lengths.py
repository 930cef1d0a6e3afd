"""What a model loses where it sees more at once, or less, than it was trained to."""

from dataclasses import replace

from atento.data.questions import Objective
from atento.data.text import Tokens
from atento.errors import UserError
from atento.models.build import build, for_text
from atento.models.config import EXTENSIONS, ModelConfig
from atento.models.decoder import Decoder
from atento.models.encoder import Encoder
from atento.tasks.language import NEXT, validation_loss

__all__ = ["extended", "loss_at"]


def loss_at(  # long: what is judged, on what, how
    model: Decoder | Encoder,
    config: ModelConfig,
    tokens: Tokens,
    context: int,
    extension: str = "none",
    asking: Objective = NEXT,
) -> float:
    """The `validation_loss` in windows of any length, those of the training or others.

    An `extension` stretches rotary positions to that length, in the same weights. Learned positions
    know nothing beyond their table, and say so.
    Claim: test_lengths.py::test_the_loss_at_a_context_is_that_of_windows_of_it
    """
    if not 1 <= context < len(tokens):
        raise UserError(
            f"contexts must be at least 1 and fit the {len(tokens)} validation tokens; got "
            f"{context}."
        )
    return validation_loss(extended(model, config, context, extension), tokens, context, asking)


def extended(
    model: Decoder | Encoder, config: ModelConfig, context: int, extension: str
) -> Decoder | Encoder:
    """The same weights with rotary positions stretched to a context, as the extension does it.

    The factor is context / trained context; up to what was trained nothing is stretched.
    Claim: test_lengths.py::test_an_extension_changes_positions_and_no_weight
    """
    if extension not in EXTENSIONS:
        raise UserError(f"extension must be one of {', '.join(EXTENSIONS)}; got {extension!r}.")
    if extension == "none":
        return model
    if config.positions != "rotary":
        raise UserError(
            f"extension {extension!r} stretches rotary positions; this model's are "
            f"{config.positions!r}. Leave it out."
        )
    factor = max(1.0, context / config.context)
    made = for_text(build(replace(config, extension=extension, factor=factor)))
    made.load_state_dict(model.state_dict())
    return made.to(next(model.parameters()).device).eval()
