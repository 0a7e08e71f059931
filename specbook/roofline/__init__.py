"""Stage 3: what a round costs, and where speculation pays."""
