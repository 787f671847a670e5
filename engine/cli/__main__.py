"""`python -m engine.cli` is `txlog`."""

import sys

from engine.cli import main

sys.exit(main())
