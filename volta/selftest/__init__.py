"""Every op of the op table, checked on this machine: `python -m volta selftest`. The tests of the repository run the same checks."""
from volta.selftest.run import Failure, Outcome, main, selftest

__all__ = ["Failure", "Outcome", "main", "selftest"]
