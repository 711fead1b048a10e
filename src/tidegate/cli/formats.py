"""Choices of command-line options."""

from __future__ import annotations

from enum import StrEnum


class Runtime(StrEnum):
    SPARK = "spark"
    EMBEDDED = "embedded"


class Times(StrEnum):
    ISO = "iso"
    MICROS = "micros"


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
