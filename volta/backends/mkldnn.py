"""Settings of a library that is not used here."""
enabled = True


def is_available() -> bool:
    """Whether the library is used: never."""
    return False
