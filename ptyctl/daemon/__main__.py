"""`python -m ptyctl.daemon`."""

import sys

from .main import run

sys.exit(run())
