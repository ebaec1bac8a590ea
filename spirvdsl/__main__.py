"""`python -m spirvdsl`: read, build and check kernels from a shell. See cli/ for the subcommands."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
