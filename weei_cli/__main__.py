import sys

from weei_cli.main import main

sys.exit(main())
