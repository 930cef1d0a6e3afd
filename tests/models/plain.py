"""The models of every config in NumPy's float64, written from the papers: an oracle."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from atento.models.build import build
from atento.models.config import ModelConfig
from atento.models.decoder import Decoder
from atento.models.encoder import Encoder

Array = NDArray[np.float64]
Weights = dict[str, Array]
erf = np.vectorize(math.erf)


def opinionated(config: ModelConfig, seed: int = 1) -> Decoder | Encoder:
    """A model in float64 whose every parameter is far from where training starts."""
    torch.manual_seed(seed)
    model = build(config).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def logits(config: ModelConfig, weights: Weights, tokens: NDArray[np.int64]) -> Array:
    """[B, N] → [B, N, V]."""
    table = weights["embedding.table.weight"]
    x = table[tokens]
    if config.positions == "learned":
        x = x + weights["positions.table.weight"][: tokens.shape[1]]
    if config.positions == "sinusoidal":
        x = x * np.sqrt(config.width) + sinusoids(tokens.shape[1], config)
    for n in range(config.layers):
        if config.attention == "dot":
            x = x + attention(
                config, weights, n, norm(weights, f"blocks.{n}.attention_residual.norm", x)
            )
        h = norm(weights, f"blocks.{n}.feedforward_residual.norm", x)
        h = activation(config.activation, linear(weights, f"blocks.{n}.feedforward.up", h))
        x = x + linear(weights, f"blocks.{n}.feedforward.down", h)
    head = weights.get("embedding.head.weight", table)
    return norm(weights, "norm", x) @ head.T


def sinusoids(length: int, config: ModelConfig) -> Array:
    made = np.zeros((length, config.width))
    for p in range(length):
        for n in range(config.width):
            angle = p / config.base ** (2 * (n // 2) / config.width)
            made[p, n] = math.cos(angle) if n % 2 else math.sin(angle)
    return made


def linear(weights: Weights, name: str, x: Array) -> Array:
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)


def norm(weights: Weights, name: str, x: Array) -> Array:
    """LayerNorm by its name in the config would be no oracle: RMSNorm has no mean and ε = 1e-6."""
    return NORMS[weights["kind of norm"].item()](weights, name, x)


def layer_norm(weights: Weights, name: str, x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights.get(f"{name}.bias", 0.0)


def rms_norm(weights: Weights, name: str, x: Array) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weights[f"{name}.weight"]


NORMS = {0: layer_norm, 1: rms_norm}


def activation(name: str, x: Array) -> Array:
    if name == "swiglu":
        a, b = np.split(x, 2, -1)
        return a / (1 + np.exp(-a)) * b
    return {
        "gelu": lambda: x * 0.5 * (1 + erf(x / np.sqrt(2))),
        "relu": lambda: np.maximum(x, 0),
        "relu2": lambda: np.maximum(x, 0) ** 2,
    }[name]()


def attention(config: ModelConfig, weights: Weights, n: int, x: Array) -> Array:
    batch, length, width = x.shape
    name, size = f"blocks.{n}.attention", width // config.heads
    groups = config.heads // (config.kv_heads or config.heads)
    heads = [
        linear(weights, f"{name}.{part}", x).reshape(batch, length, -1, size)
        for part in ("query", "key", "value")
    ]
    if config.qk_norm:
        heads[0] = rms_norm(weights, f"{name}.query_norm", heads[0])
        heads[1] = rms_norm(weights, f"{name}.key_norm", heads[1])
    if config.positions == "rotary":
        heads[:2] = [turned(config, h, size) for h in heads[:2]]
    out = np.zeros((batch, length, config.heads, size))
    for b in range(batch):
        for h in range(config.heads):
            for i in range(length):
                seen = range(length if config.kind == "encoder" else i + 1)
                q = heads[0][b, i, h]
                scores = np.array(
                    [q @ heads[1][b, j, h // groups] / math.sqrt(size) for j in seen]
                ) - slope(config, h) * np.abs(i - np.array(seen))
                chances = np.exp(scores - scores.max())
                chances /= chances.sum()
                out[b, i, h] = chances @ heads[2][b, : len(seen), h // groups]
    return linear(weights, f"{name}.out", out.reshape(batch, length, width))


def turned(config: ModelConfig, x: Array, size: int) -> Array:
    """Pairs (n, n + D/2) as complex numbers, times e^(i · position · frequency)."""
    base, stretch = config.base, 1.0
    if config.extension == "ntk":
        base *= config.factor ** (size / (size - 2))
    if config.extension == "linear":
        stretch = config.factor
    places = np.arange(x.shape[1]) / stretch
    angles = places[:, None, None] * base ** (-np.arange(0, size, 2) / size)
    pairs = (x[..., : size // 2] + 1j * x[..., size // 2 :]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], -1)


def slope(config: ModelConfig, head: int) -> float:
    """The paper's, for 3 heads: those of 2, then the first of 4."""
    assert config.heads == 3
    return (2**-4, 2**-8, 2**-2)[head] if config.positions == "alibi" else 0.0


def plain_logits(config: ModelConfig, model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    weights = {name: x.numpy() for name, x in model.state_dict().items()}
    weights["kind of norm"] = np.array(["layer", "rms"].index(config.norm))
    return torch.from_numpy(logits(config, weights, tokens.numpy()))
