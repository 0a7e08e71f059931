"""Stage 2: what a device can do, each figure with its source."""
