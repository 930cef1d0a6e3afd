"""What a recipe says of its data."""

from dataclasses import dataclass, field

from atento.errors import UserError

__all__ = ["SUBWORDS", "TOKENIZERS", "VOCABULARY", "Data"]

SUBWORDS = ("bpe", "unigram")
TOKENIZERS = ("characters", "bytes", *SUBWORDS)
VOCABULARY = 4096
SMALLEST, LARGEST = 258, 1_000_000  # <PAD>, 256 bytes and one piece; three of them fit 63 bits


@dataclass(frozen=True, kw_only=True)
class Data:
    """The [data] of a recipe."""

    source: str = field(
        default="",
        metadata={
            "help": "a named set, a text file, a folder of .txt files, or - for stdin; "
            "several with commas between them; of a translation: pairs"
        },
    )
    tokenizer: str = field(
        default="characters", metadata={"help": f"one of {', '.join(TOKENIZERS)}"}
    )
    vocabulary_size: int = field(
        default=VOCABULARY,
        metadata={"help": "how many pieces bpe or unigram may learn, <PAD> and bytes included"},
    )
    languages: str = field(
        default="",
        metadata={"help": "from which to which, as files end: en,de", "task": "translation"},
    )
    validation: str = field(
        default="", metadata={"help": "pairs to be judged by", "task": "translation"}
    )
    test: str = field(
        default="", metadata={"help": "pairs for the last word", "task": "translation"}
    )
    joint: bool = field(
        default=True,
        metadata={
            "help": "whether source and target have one tokenizer",
            "task": "translation",
        },
    )

    def __post_init__(self) -> None:
        if self.tokenizer not in TOKENIZERS:
            raise UserError(
                f"data.tokenizer must be one of {', '.join(TOKENIZERS)}; got {self.tokenizer!r}."
            )
        if not SMALLEST <= self.vocabulary_size <= LARGEST:
            raise UserError(
                f"data.vocabulary_size must be between {SMALLEST} and {LARGEST:,}; got "
                f"{self.vocabulary_size}."
            )
        if self.vocabulary_size != VOCABULARY and self.tokenizer not in SUBWORDS:
            raise UserError(
                f"data.vocabulary_size is for the tokenizers {' and '.join(SUBWORDS)}; "
                f"{self.tokenizer!r} has the vocabulary that it has. Leave it out, or add "
                "--data.tokenizer bpe."
            )
