"""The five stages of the funnel, a module each: a stage reads what the ones before it wrote, and writes a folder."""
