"""Programs over graphs."""
