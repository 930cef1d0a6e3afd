"""argparse with the house's errors: one line, exit code 2, no usage before it."""

import argparse
from typing import NoReturn

from atento.errors import UserError

__all__ = ["Parser"]


class Parser(argparse.ArgumentParser):
    """Raises a `UserError` where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. See: {self.prog} --help")
