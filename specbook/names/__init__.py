"""Devices, models, drafters and engines as people write them: resolved to what specbook has figures of, or asked."""
