"""What holds for every test."""

import os

# libgomp spins at barriers: beside any other busy process small parallel loops slow down a
# hundredfold. Read when torch is loaded, so it must be set before.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
