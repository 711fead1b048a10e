"""Hints for people who write SQL of other systems."""
