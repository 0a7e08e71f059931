"""specbook: find out whether speculative decoding pays before renting a GPU."""

__version__ = "0.1.0"
