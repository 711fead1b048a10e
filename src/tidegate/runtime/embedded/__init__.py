"""Stages in this process."""
