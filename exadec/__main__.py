"""`python -m exadec` is the command `exadec`."""

from exadec.cli import main

main()
