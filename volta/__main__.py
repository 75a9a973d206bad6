"""`python -m volta COMMAND`: what can be done with Volta from a shell."""
import sys
from importlib import import_module

# Name -> (module with a function `main` of the arguments, what it does).
COMMANDS = {
    "info": ("volta.utils.collect_env", "says what Volta found on this machine"),
    "run": ("volta.compat.run", "runs a script written for PyTorch without a change"),
    "selftest": ("volta.selftest", "checks every operation on this machine"),
}
USAGE = f"usage: python -m volta {{{','.join(COMMANDS)}}} [--help]"


def main() -> int:
    """Run the command that the first argument names; gives its exit status."""
    command = sys.argv[1] if len(sys.argv) > 1 else None
    if command in COMMANDS:
        return import_module(COMMANDS[command][0]).main(sys.argv[2:])
    if command in ("-h", "--help"):
        print(USAGE, "", *(f"  {name:<10}{text}" for name, (_, text) in COMMANDS.items()), sep="\n")
        return 0
    print(USAGE, *([f"python -m volta: error: there is no command {command!r}"] if command else []), sep="\n", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
