"""`python -m interlace`."""

import sys

from interlace.cli import main

sys.exit(main())
