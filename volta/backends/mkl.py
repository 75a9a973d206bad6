"""A library that is not used here."""


def is_available() -> bool:
    """Whether the library is used: never."""
    return False
