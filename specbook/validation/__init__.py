"""Measured series of published and private runs, held against the model."""
