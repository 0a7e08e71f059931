"""Readers of the acceptance files that people already have: one module a format, one shape out.

A format is recognised by what is in the file, never by its name. Every reader turns a record of its format into
:class:`~specbook.acceptance.readers.observation.Observation`; :mod:`specbook.acceptance.importing` pools them.
"""
