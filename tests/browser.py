"""A real browser, driven from tests: it shows a file, and says what it complained about."""

import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
COMPLAINTS = ("Content Security Policy", "Refused to", "net::ERR", "Uncaught", "CONSOLE")


def chromium(profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = next(path for path in map(shutil.which, NAMES) if path)
    quiet = ["background-networking", "component-update", "sync", "gpu", "quic"]
    fixed = ["--headless", "--no-sandbox", "--no-first-run", f"--user-data-dir={profile}"]
    return subprocess.run(
        [program, *fixed, *(f"--disable-{name}" for name in quiet), *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
