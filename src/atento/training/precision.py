"""The precision of matrix products; weights, optimizer and statistics stay float32."""

import torch
from torch import nn

__all__ = ["autocast", "has_fast_bfloat16", "precision_for"]

# Where bfloat16 begins to pay on a CPU that has it. Medians of interleaved training steps of a
# decoder, float32 → bfloat16, EPYC with avx512_bf16, 2 cores shared with others, torch 2.13,
# 2026-11-19: 16 wide, 9.2 → 8.2 ms; 32 (26 thousand weights), 12.3 → 11.7; 64 (103 thousand),
# 18.9 → 16.1; lecture 003's 128, 57 → 37; 128 with 4 layers × 64 tokens, 205 → 124; 384 with 6
# layers × 256, 995 → 446. Below this a few per cent are not worth the rounding.
WORTH_IT = 50_000


def precision_for(choice: str, model: nn.Module) -> str:
    """float32 or bfloat16: the choice, or what "auto" means for this model where it stands.

    bfloat16 where the hardware itself multiplies in it, and, on a CPU, the model is large enough;
    elsewhere float32. It follows from device and shapes alone.
    Claim: test_mixed_precision.py::test_auto_is_float32_without_the_instructions
    """
    if choice != "auto":
        return choice
    device = next(model.parameters()).device
    weights = sum(p.numel() for p in model.parameters())
    if not has_fast_bfloat16(device) or (device.type == "cpu" and weights < WORTH_IT):
        return "float32"
    return "bfloat16"


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions of its own; torch emulates them elsewhere, slowly."""
    if device.type == "cuda":
        # ROCm's numbers are others; there torch knows.
        if torch.version.hip:
            return torch.cuda.is_bf16_supported()
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
        return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return False


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """The context in which losses are computed.

    Claim: test_mixed_precision.py::test_loss_is_within_a_hundredth_of_float32
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
