"""The order in which torch.einsum multiplies more than two operands: from the left, at any setting."""
enabled = False
strategy = None


def is_available() -> bool:
    """Whether the package opt_einsum is used: it is not."""
    return False
