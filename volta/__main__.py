"""`python -m volta COMMAND`: what can be done with Volta from a shell."""
import sys

from volta.selftest import main as selftest

COMMANDS = {"selftest": selftest}


def main() -> int:
    """Run the command that the first argument names."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python -m volta {{{','.join(COMMANDS)}}} [--help]", file=sys.stderr)
        return 2
    return COMMANDS[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
