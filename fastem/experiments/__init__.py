"""The paper's experiments, as ``fastem reproduce`` runs them."""
