"""The kernel library: every kernel that ships, written in spirvdsl. catalogue.py lists them all."""
