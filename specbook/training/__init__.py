"""The recipe of the shipped models: corpus, tokenizer, target, distillation. Nothing else in the package imports it.

Run it with ``python -m specbook.training``. The corpus, the tokenizer and the streams of tokens need only the package;
what trains needs torch (extra ``train``).
"""
