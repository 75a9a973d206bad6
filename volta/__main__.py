"""`python -m volta COMMAND`: what can be done with Volta from a shell."""
import sys
from importlib import import_module

# Modules with a function `main` of the arguments.
COMMANDS = {"info": "volta.utils.collect_env", "run": "volta.compat.run", "selftest": "volta.selftest"}


def main() -> int:
    """Run the command that the first argument names."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python -m volta {{{','.join(COMMANDS)}}} [--help]", file=sys.stderr)
        return 2
    return import_module(COMMANDS[sys.argv[1]]).main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
