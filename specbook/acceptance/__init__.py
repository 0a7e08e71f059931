"""Stage 1: what a round yields, and the profiles that hold the evidence for it."""
