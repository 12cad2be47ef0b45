"""`python -m ptyctl`: the command line, as the program `ptyctl`."""

from ptyctl.cli import main

if __name__ == "__main__":
    main()
