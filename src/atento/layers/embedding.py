"""Tokens to vectors, and vectors back to logits over the vocabulary."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import embedding, linear

__all__ = ["TokenEmbedding"]


class TokenEmbedding(nn.Module):
    """scale · E[token], and logits = h Eᵀ, or head(h) where a free head is given.

    Tied, there is one matrix E and no second name for it, so the state dict holds it once. Vaswani
    et al. scale by √C. tokens: Int[B, N] → [B, N, C]; `logits`: [..., C] → [..., V].
    Ref: Press and Wolf 2017, arXiv:1608.05859.
    Claim: test_embedding.py::test_a_tied_head_is_the_embedding_itself
    """

    def __init__(
        self, vocabulary: int, width: int, *, head: nn.Module | None = None, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        # torch's unit variance would make tied logits √C too large at the start.
        nn.init.normal_(self.table.weight, std=0.02)
        self.head = head
        self.scale = scale

    def forward(self, tokens: Tensor) -> Tensor:
        try:
            found = embedding(tokens, self.table.weight)
        except IndexError as error:
            raise ValueError(
                f"tokens must be 0 … {self.table.num_embeddings - 1}, one of the vocabulary; got "
                f"{int(tokens.min())} … {int(tokens.max())}. Is this the model's own tokenizer?"
            ) from error
        return found if self.scale == 1.0 else found * self.scale

    def logits(self, h: Tensor) -> Tensor:
        """h [..., C] against every token of the vocabulary: [..., V]."""
        if self.head is None:
            return linear(h, self.table.weight)
        out: Tensor = self.head(h)
        return out
