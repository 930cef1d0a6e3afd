"""Recurrent layers on CPU beside torch.nn's modules with the same weights."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from atento.layers.recurrent import Recurrent, gru, lstm, rnn
from measure import interleaved, keep, medians, ratio

BATCH, LENGTH, WIDTH = 32, 30, 256


def actions_of(ours: Recurrent, theirs: nn.RNN | nn.LSTM | nn.GRU) -> dict[str, object]:
    torch.manual_seed(0)
    x = torch.randn(BATCH, LENGTH, WIDTH)
    lengths = torch.randint(LENGTH // 3, LENGTH + 1, (BATCH,))

    def ragged() -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        return pad_packed_sequence(theirs(packed)[0], True, total_length=LENGTH)[0]

    return {
        "atento": lambda: ours(x)[0].sum().backward(),
        "torch.nn": lambda: theirs(x)[0].sum().backward(),
        "atento ragged": lambda: ours(x, lengths)[0].sum().backward(),
        "torch.nn ragged": lambda: ragged().sum().backward(),
    }


def main() -> None:
    results: dict[str, object] = {
        "claim": "two layers, forward and backward: ≥ 0.95 of torch.nn's speed, also packed",
        "shape": [BATCH, LENGTH, WIDTH],
    }
    for made, peer in ((rnn, nn.RNN), (lstm, nn.LSTM), (gru, nn.GRU)):
        ours, theirs = made(WIDTH, layers=2), peer(WIDTH, WIDTH, 2, batch_first=True)
        theirs.load_state_dict(ours.kernel.state_dict())
        times = interleaved(actions_of(ours, theirs), repeats=25)
        name = made.__name__
        results[f"{name} milliseconds"] = {n: round(s * 1e3, 2) for n, s in medians(times).items()}
        results[f"{name} of torch.nn's speed"] = round(ratio(times, "torch.nn", "atento"), 3)
        ragged = ratio(times, "torch.nn ragged", "atento ragged")
        results[f"{name} of torch.nn's speed, ragged"] = round(ragged, 3)
    keep("recurrent_cpu", results)


if __name__ == "__main__":
    main()
