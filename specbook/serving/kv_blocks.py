"""The pool of KV blocks that running requests share."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.checks import check_count


@dataclass(frozen=True, kw_only=True, slots=True)
class KvConfig:
    """How the memory for keys and values is divided.

    Attributes
    ----------
    n_blocks : int
        Blocks in all. Take what your engine prints at its start: a share of the device's memory overstates it.
    block_size_tokens : int
    watermark_blocks : int
        Blocks that stay free when a request is admitted, so that those that run have room to grow.

    Raises
    ------
    ValueError
        If a number is not whole, there is no block, or the watermark leaves none.

    Examples
    --------
    >>> KvConfig(n_blocks=2000).n_tokens
    32000
    >>> KvConfig(n_blocks=2000).blocks_for(33)
    3
    """

    n_blocks: int
    block_size_tokens: int = 16
    watermark_blocks: int = 0

    def __post_init__(self) -> None:
        for name, minimum in (("n_blocks", 1), ("block_size_tokens", 1), ("watermark_blocks", 0)):
            object.__setattr__(self, name, check_count(name, getattr(self, name), minimum=minimum))
        if self.watermark_blocks >= self.n_blocks:
            raise ValueError(f"watermark_blocks must be below n_blocks; got {self.watermark_blocks} of {self.n_blocks}")

    @property
    def n_tokens(self) -> int:
        """Tokens that the pool holds."""
        return self.n_blocks * self.block_size_tokens

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold so many tokens of one request."""
        return -(-tokens // self.block_size_tokens)

    def fits(self, tokens: int) -> bool:
        """Whether a request of so many tokens can be admitted into an empty pool."""
        return self.blocks_for(tokens) + self.watermark_blocks <= self.n_blocks
