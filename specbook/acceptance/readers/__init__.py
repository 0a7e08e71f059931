"""Readers of the acceptance files that people already have: one module a format, one shape out.

A format is recognised by what is in the file, never by its name. Every reader turns a record of its format into
:class:`~specbook.acceptance.readers.observation.Observation`; :func:`import_profile` pools them into a profile, and
:func:`import_profiles` into one for each thing that was measured.
"""

from specbook.acceptance.readers.formats import FORMATS
from specbook.acceptance.readers.importing import ImportOptions, import_profile, import_profiles

__all__ = ["FORMATS", "ImportOptions", "import_profile", "import_profiles"]
