import sys

from weei_agent.cli import main

sys.exit(main())
