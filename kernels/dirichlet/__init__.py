"""Dirichlet distributions: Newton's method, and documents as tables of counts."""
