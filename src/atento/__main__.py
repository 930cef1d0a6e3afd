"""`python -m atento`, for where the script is not on the path."""

import sys

from atento.cli import main

if __name__ == "__main__":
    sys.exit(main())
