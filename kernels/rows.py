"""Row records: what a kernel must know about each token of a dispatch."""

from __future__ import annotations

from spirvdsl import struct, u32

PAGE = 64  # tokens of one KV page


@struct
class Row:
    """One token: its id, its position in the sequence, the first page-table entry and the slot of that sequence."""

    token: u32
    position: u32
    table: u32
    slot: u32


def padded(k: int) -> int:
    """Row stride of activations and planes: whole blocks of 32."""
    return -(-k // 32) * 32
