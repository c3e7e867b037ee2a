"""fastem."""
