"""A sentence that a model was not trained on, to look at it with."""

from atento.data.text import Tokens
from atento.data.tokenizers import Tokenizer

__all__ = ["sentence"]

LOOKED_AT = 4096  # tokens in which a sentence is sought
LEAST, MOST = 24, 160  # characters


def sentence(tokenizer: Tokenizer, validation: Tokens) -> str:
    """The first line of a split, but its first, that is long enough; else its beginning."""
    beginning = tokenizer.decode(validation[:LOOKED_AT].tolist())
    lines = (line.strip() for line in beginning.split("\n")[1:])
    return next((line for line in lines if len(line) >= LEAST), beginning.strip())[:MOST]
