"""Stages and the runtimes that run them."""
