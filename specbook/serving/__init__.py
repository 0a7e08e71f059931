"""Stage 4: what a serving engine makes of a load, simulated iteration by iteration."""
