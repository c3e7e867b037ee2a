"""Families of distributions inside kernels, one file each."""
