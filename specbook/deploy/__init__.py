"""From a projection to what serving engines take: draft lengths by range of batches, in each engine's own words."""
