"""The native engine: a Llama-style transformer in numpy with a real cache, drafters, and speculative decoding.

It exists so that claims about acceptance, rollback and losslessness are claims about a real model. Read it in order:
:mod:`~specbook.engine.arithmetic`, :mod:`~specbook.engine.kv_cache`, :mod:`~specbook.engine.attention`,
:mod:`~specbook.engine.transformer`, :mod:`~specbook.engine.sampling`, :mod:`~specbook.engine.draft`,
:mod:`~specbook.engine.verification`, :mod:`~specbook.engine.drafters`, :mod:`~specbook.engine.decoding`.
"""
