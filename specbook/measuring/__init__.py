"""Measured acceptance: prompts, and what the engine does with them."""
