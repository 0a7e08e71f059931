"""The four gates: speculation must change nothing but the time.

:mod:`~specbook.parity.greedy`: every token equals autoregressive decoding. :mod:`~specbook.parity.distribution`: the
law of sampled tokens is the target's. :mod:`~specbook.parity.rollback`: rejected drafts leave no trace in the cache.
:mod:`~specbook.parity.tree_mask`: a node of a tree knows its ancestors and nobody else.

In ``exact`` and ``ref64`` equality is of bits. In ``fast`` and ``naive`` a pass of several rows rounds otherwise than
single steps, so there tokens must be equal, and logits close. :mod:`~specbook.parity.gates` runs what is chosen.
"""
