"""Hidden Markov models: emissions, recursions, usages, and the online loop."""
