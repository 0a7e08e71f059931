"""From the files that people have to acceptance profiles: find, recognise, pool, and say what cannot be known."""

from specbook.acceptance.importing.collection import import_profile, import_profiles
from specbook.acceptance.importing.formats import FORMATS
from specbook.acceptance.importing.options import ImportOptions

__all__ = ["FORMATS", "ImportOptions", "import_profile", "import_profiles"]
