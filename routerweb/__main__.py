"""`python -m routerweb demo`: the command `routerweb`, also where it is not installed."""

from routerweb.command_line import installed

if __name__ == "__main__":
    installed()
