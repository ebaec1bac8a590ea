"""The kernel library: every kernel that ships, written in spirvdsl. catalogue.py lists them all.

The version is that of the distribution. Programs that probe for a PyPI package named `kernels` (transformers does) read it.
"""

__version__ = "0.1.0.dev0"
