"""Commands given to atento, each in a process of its own, forked from one that has torch already.

Reads a JSON list of {argv, cwd, stdin, largest} from stdin; prints a JSON list of [exit code,
stdout, stderr]. `largest`, where it is not null, is how many bytes a file may grow to: a full disk.
"""

import contextlib
import importlib
import json
import os
import sys
from typing import Any

AT_ONCE = 2


def started(case: dict[str, Any], out: int, err: int) -> int:
    """The process id of `atento ARGV`."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.chdir(case["cwd"])
        given = os.memfd_create("stdin") if hasattr(os, "memfd_create") else os.open("/dev/null", 0)
        os.write(given, case["stdin"].encode())
        os.lseek(given, 0, os.SEEK_SET)
        for source, target in ((given, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        if case["largest"] is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (case["largest"], case["largest"]))
        from atento.cli import main

        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode) for n, mode in enumerate("rww"))
        code = main(case["argv"])
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(code)


def run(cases: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    pipes = [[os.pipe() for _ in range(2)] for _ in cases]  # none is filled: all say little
    codes: dict[int, int] = {}
    running: dict[int, int] = {}
    for number, case in enumerate(cases):
        if len(running) == AT_ONCE:
            ended(running, codes)
        running[started(case, *(into for _, into in pipes[number]))] = number
        for _, into in pipes[number]:
            os.close(into)
    while running:
        ended(running, codes)
    said = []
    for number, both in enumerate(pipes):
        out, err = (os.fdopen(source, encoding="utf-8").read() for source, _ in both)
        said.append((codes[number], out, err))
    return said


def ended(running: dict[int, int], codes: dict[int, int]) -> None:
    child, status = os.wait()
    codes[running.pop(child)] = os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    for module in ("cli.eval", "cli.sample", "cli.train", "tasks.describe", "tasks.start"):
        importlib.import_module(f"atento.{module}")
    print(json.dumps(run(json.load(sys.stdin))))
