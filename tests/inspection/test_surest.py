"""The head that is shown is the one that its rule says."""

import torch

from atento.inspection.surest import surest
from atento.models.build import build
from atento.models.config import ModelConfig

CONFIG = ModelConfig(width=12, layers=3, heads=2, context=7, vocabulary=11, dropout=0.5)


def weights_by_hand(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """[layers, H, N, N] from q and k as a hook on each attention's projections finds them."""
    found = []

    def look(module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        x = given[0]
        heads = [
            part(x)[0].unflatten(-1, (CONFIG.heads, -1)).movedim(1, 0)
            for part in (module.query, module.key)
        ]
        scores = heads[0] @ heads[1].mT / heads[0].shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        found.append(scores.masked_fill(hidden, -torch.inf).softmax(-1))

    handles = [block.attention.register_forward_pre_hook(look) for block in model.blocks]
    with torch.inference_mode():
        model.eval()(tokens)
    for handle in handles:
        handle.remove()
    return torch.stack(found)


def test_the_head_that_looks_elsewhere_with_most_weight_is_shown() -> None:
    torch.manual_seed(3)
    model = build(CONFIG)
    with torch.no_grad():
        for block in model.blocks:
            block.attention.query.weight *= 9  # heads that have something to say
    tokens = torch.randint(11, (1, 7))
    right = weights_by_hand(model, tokens)
    best, where = -1.0, (0, 0)
    for layer in range(3):
        for head in range(2):
            rows = right[layer, head].tolist()
            sure = [max(w for j, w in enumerate(row) if j != i) for i, row in enumerate(rows)]
            if sum(sure) / 7 > best:
                best, where = sum(sure) / 7, (layer, head)
    model.train()
    shown = surest(model, tokens)
    assert shown is not None
    assert (shown.layer - 1, shown.head - 1) == where
    torch.testing.assert_close(torch.tensor(shown.weights), right[where], atol=1e-5, rtol=1e-4)
    assert abs(shown.surety - best) < 1e-5
    assert model.training, "the model is left as it was"
    assert all(w == 0 for i, row in enumerate(shown.weights) for w in row[i + 1 :])


def test_without_attention_or_with_one_token_there_is_nothing_to_show() -> None:
    without = ModelConfig(width=12, layers=1, heads=2, context=7, vocabulary=11, attention="none")
    assert surest(build(without), torch.tensor([[1, 2, 3]])) is None
    assert surest(build(CONFIG), torch.tensor([[1]])) is None
