"""Many tasks on one processor, on several, or on a cluster, with the same result in every byte."""
