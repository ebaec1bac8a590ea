"""Pages of the KV cache: which are free, and which a sequence owns."""

from __future__ import annotations


class Pages:
    """A pool of `count` pages."""

    def __init__(self, count: int):
        self.count = count
        self._free = list(range(count - 1, -1, -1))

    @property
    def free(self) -> int:
        """Pages nobody owns."""
        return len(self._free)

    def take(self, n: int) -> list[int]:
        """n pages. MemoryError when fewer are free."""
        if n > len(self._free):
            raise MemoryError(f"{n} KV pages wanted, {len(self._free)} of {self.count} free; shorten the prompt or raise --ctx")
        return [self._free.pop() for _ in range(n)]

    def give(self, pages: list[int]) -> None:
        """Return pages."""
        self._free += reversed(pages)
