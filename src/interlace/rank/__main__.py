"""`python -m interlace.rank -- CMD`."""

import sys

from interlace.rank.wrapper import main

sys.exit(main(sys.argv[1:]))
