"""The encoder-only model: each token hears those on both sides, and foretells what was hidden."""

from torch import Tensor

from atento.core.compose import Mask
from atento.models.transformer import Transformer

__all__ = ["Encoder"]


class Encoder(Transformer):
    """logits = norm(h_L) Eᵀ, in which every token has heard of those before and after it.

    The norm comes first in each block, as in the decoder, where BERT's comes last; there are no
    segments and no pooled first token.
    Ref: Devlin et al. 2019, arXiv:1810.04805, section 3.
    Claim: test_encoder.py::test_an_encoder_equals_torchs
    """

    def forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Mask | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """tokens Int[B, N] → logits [B, N, V]; the other arguments are those of `states`.

        With `places` Int[B, M], columns of `tokens`, the logits there alone, [B, M, V].
        Claim: test_encoder.py::test_logits_at_places_are_those_of_all
        """
        states = self.states(tokens, positions=positions, mask=mask)
        if places is not None:
            states = states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]))
        return self.embedding.logits(states)
