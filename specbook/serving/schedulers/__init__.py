"""Schedulers: what the next iteration of an engine holds."""
