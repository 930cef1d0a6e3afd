"""What a run keeps of its text in env.json, so that its report needs the text no more."""

from typing import Any

from atento.data.corpus import Corpus
from atento.data.survey import Survey
from atento.data.text import Tokens
from atento.data.tokenizers import Characters, Tokenizer
from atento.tasks.language import Language

__all__ = ["about", "characters_of"]

RARE_SHOWN = 12


def about(text: Corpus, task: Language) -> dict[str, Any]:
    """Sizes, the losses of counting, a sentence of the validation split, and what the text is."""
    return {
        "training_tokens": len(task.training),
        "validation_tokens": len(task.validation),
        "validation_characters": characters_of(task.tokenizer, task.validation),
        "vocabulary": len(task.tokenizer),
        "baselines": task.baselines(),
        "sentence": task.sentence,
        "survey": _survey(text.survey),
    }


def characters_of(tokenizer: Tokenizer, tokens: Tokens) -> int:
    """How many characters some tokens stand for."""
    if isinstance(tokenizer, Characters):
        return len(tokens)
    return len(tokenizer.decode(tokens.tolist()))


def _survey(survey: Survey) -> dict[str, Any]:
    rare = survey.rare
    return {
        "files": len(survey.files),
        "name": survey.files[0] if len(survey.files) == 1 else "",
        "characters": survey.characters,
        "distinct": len(survey.counts),
        "lines": survey.lines,
        "encodings": sorted(set(survey.encodings)),
        "licences": list(dict.fromkeys(survey.licences)),
        "notices": [[n.owner, n.kind, n.file, n.line] for n in survey.notices],
        "rare": [list(pair) for pair in rare[:RARE_SHOWN]],
        "rare_kinds": len(rare),
        "damaged": dict(survey.counts).get("\ufffd", 0),
    }
