"""Drafters: what proposes tokens. Each keeps its own state and learns after a round which of its nodes stayed."""
