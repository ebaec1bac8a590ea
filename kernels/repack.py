"""GGUF bytes to device planes, on the device: one lane a block of 32 weights."""

from __future__ import annotations

from spirvdsl import Format, In, Kernel, Out, Param, Push, group_id, local_index, num_groups, u16, u32


class Repack(Kernel):
    """Writes rows [row0, row0 + rows) of both planes from `raw`, which holds the GGUF bytes of just these rows.

    q, s: the planes, [row][k/elements] elements; raw: bytes as u16. `k` weights a row in the file, `blocks` blocks of 32 in a
    plane row (the last may be partly padding, for float formats). Grid: any, x * y * 64 lanes >= rows * blocks.
    """

    fmt: Param[Format]
    raw: In[u16]
    q: Out["fmt.planes[0]"]
    s: Out["fmt.planes[1]"]
    row0: Push[u32]
    rows: Push[u32]
    k: Push[u32]
    blocks: Push[u32]
    row_bytes: Push[u32]

    def main(self):
        per_element = self.fmt.elements // 32
        at = (group_id.y * num_groups.x + group_id.x) * 64 + local_index
        if at < self.rows * self.blocks:
            row = at // self.blocks
            block = at % self.blocks
            first = row * self.row_bytes
            if self.fmt.disk_elements == 1:
                byte = first + block * (32 * self.fmt.disk.size)
            else:
                byte = first + (block // (self.fmt.disk_elements // 32)) * self.fmt.disk.size
            element = ((self.row0 + row) * self.blocks + block) // per_element
            self.fmt.repack(self.raw, byte, block % per_element, self.k - block * 32, self.q[element], self.s[element])
