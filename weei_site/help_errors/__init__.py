"""What every error code means to a person. `tests/pages/test_help.py` fails when a code has no entry here."""

from weei_site.help_errors.access import ACCESS, NOW
from weei_site.help_errors.entry import Entry, Group
from weei_site.help_errors.files import FILES
from weei_site.help_errors.modules import MODULES
from weei_site.help_errors.training import OTHER, TRAINING

GROUPS: tuple[Group, ...] = (ACCESS, NOW, FILES, TRAINING, MODULES, OTHER)

__all__ = ["GROUPS", "Entry", "Group"]
