"""Stage 5: the native engine decodes for real on this machine, and what was predicted is held against the clock."""
