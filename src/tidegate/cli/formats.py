"""Choices of command-line options."""

from __future__ import annotations

from enum import StrEnum


class Runtime(StrEnum):
    SPARK = "spark"
    EMBEDDED = "embedded"


class TimesOption(StrEnum):
    ISO = "iso"
    MICROS = "micros"


class OutputFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
