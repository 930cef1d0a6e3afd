"""Measuring side by side, and keeping what was seen: bench/records/NAME.json."""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch

RECORDS = Path(__file__).parent / "records"
Action = Callable[[], object]


def interleaved(actions: dict[str, Action], repeats: int, calls: int = 1) -> dict[str, list[float]]:
    """Seconds a call of each action, in turns, so that a slow moment hits all of them alike."""
    for action in actions.values():
        action()
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            times[name].append(_seconds(action, calls))
    return times


def _seconds(action: Action, calls: int) -> float:
    if torch.cuda.is_available():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            action()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3 / calls
    start_s = time.perf_counter()
    for _ in range(calls):
        action()
    return (time.perf_counter() - start_s) / calls


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}


def ratio(times: dict[str, list[float]], ours: str, peer: str) -> float:
    """The median of ours / peer, turn by turn."""
    return statistics.median(a / b for a, b in zip(times[ours], times[peer], strict=True))


def peak_bytes(action: Action) -> int:
    """The most that torch's CPU allocator held at once during the action, beyond before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        action()
    held = peak = 0
    for event in seen.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def machine() -> dict[str, Any]:
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def keep(name: str, results: dict[str, Any]) -> None:
    """Prints the results and writes the record."""
    command = f"python bench/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()
    record = {"command": command, "date": date.today().isoformat(), **machine(), **results}
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    print(text)
    RECORDS.mkdir(exist_ok=True)
    folder = Path(os.environ.get("ATENTO_RECORDS", RECORDS))
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
