"""The decoder-only model: each token hears those before it, and foretells the next."""

from collections.abc import Sequence

from torch import Tensor

from atento.core.cache import Cache, GrowingCache
from atento.core.compose import Mask
from atento.models.transformer import Transformer

__all__ = ["Decoder"]


class Decoder(Transformer):
    """logits = norm(h_L) Eᵀ, in which no token has heard of those after it.

    Ref: lecture 003; Radford et al. 2019 (GPT-2).
    Claim: test_decoder.py::test_lecture_003_has_412800_parameters
    """

    def forward(
        self,
        tokens: Tensor,
        caches: Sequence[Cache] | None = None,
        *,
        positions: Tensor | None = None,
        mask: Mask | None = None,
    ) -> Tensor:
        """tokens Int[B, N] → logits [B, N, V]; the arguments are those of `states`.

        Claim: test_decoder.py::test_cached_in_pieces_equals_whole
        """
        return self.embedding.logits(self.states(tokens, caches, positions=positions, mask=mask))

    def caches(self) -> list[GrowingCache]:
        """Empty caches for one batch of sequences."""
        return [GrowingCache() for _ in self.blocks]
