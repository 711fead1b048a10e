"""Prepare raw batches of lines for decoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LINE = "line"
"""Name of the only column of a raw batch of text."""

BYTE_ORDER_MARK = "\ufeff"
"""The byte order mark, which some programs write before the first line."""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines that hold rows; `broken` describes the errors of lines that are cut or not UTF-8.

    `places` has the position of each line in the raw batch; None if no line was skipped.
    """

    texts: pa.Array
    broken: dict[int, str]
    places: npt.NDArray[np.intp] | None = None


_CUT, _LIMIT = b"tidegate.cut", b"tidegate.limit"


def mark_cut_lines(raw: pa.RecordBatch, cut: npt.NDArray[np.int64], limit: int) -> pa.RecordBatch:
    """Mark the lines of a raw batch that were cut because they are longer than the limit."""
    metadata = {_CUT: cut.astype(np.int64).tobytes(), _LIMIT: str(limit).encode()}
    return raw.replace_schema_metadata({**(raw.schema.metadata or {}), **metadata})


def has_cut_lines(raw: pa.RecordBatch) -> bool:
    return _CUT in (raw.schema.metadata or {})


def _errors_of_cut_lines(raw: pa.RecordBatch) -> dict[int, str]:
    metadata = raw.schema.metadata or {}
    if _CUT not in metadata:
        return {}
    detail = f"the line is longer than {int(metadata[_LIMIT]):,} bytes: see the option max_line_bytes"
    return dict.fromkeys(np.frombuffer(metadata[_CUT], np.int64).tolist(), detail)


def clean_lines(raw: pa.RecordBatch, *, header: str | None = None, space: str = "") -> Lines:
    """Return the lines that hold rows: without line ends, outer space, blank lines and header lines."""
    texts, broken = _escape_non_utf8(raw.column(0).cast(pa.string()).fill_null(""))
    broken |= _errors_of_cut_lines(raw)
    texts = _without_ends(texts)
    texts = pc.ascii_trim(texts, space) if space else texts
    keep = pc.not_equal(texts, "")
    if header is not None:
        keep = pc.and_(keep, pc.not_equal(texts, header))
    return _filter_lines(texts, keep.to_numpy(zero_copy_only=False), broken)


def join_lines(lines: pa.Array) -> pa.Buffer:
    """Join all lines into one text, each with a line end.

    The last line needs one, too: without it, Arrow treats an empty field at the end of the text as
    quoted if the previous field is.
    """
    ended = pa.concat_arrays([lines, pa.array([""], pa.string())])
    whole = pa.ListArray.from_arrays(pa.array([0, len(ended)], pa.int32()), ended)
    return pc.binary_join(whole, "\n")[0].as_buffer()


def is_any_true(mask: pa.Array) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())


def _escape_non_utf8(texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Escape the lines that are not UTF-8, and return them with a description of the error by line."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        lines = [line.decode("utf-8", errors="backslashreplace") for line in texts.cast(pa.binary()).to_pylist()]
        fixed = pa.array(lines, pa.string())
        changed = pc.not_equal(fixed.cast(pa.binary()), texts.cast(pa.binary())).to_numpy(zero_copy_only=False)
        return fixed, dict.fromkeys(np.flatnonzero(changed).tolist(), "the line is not UTF-8")
    return texts, {}


def _without_ends(texts: pa.Array) -> pa.Array:
    if is_any_true(pc.starts_with(texts, BYTE_ORDER_MARK)):
        texts = pc.replace_substring_regex(texts, f"^{BYTE_ORDER_MARK}", "")
    if is_any_true(pc.ends_with(texts, "\r")):
        texts = pc.replace_substring_regex(texts, "\r$", "")
    return texts


def _filter_lines(texts: pa.Array, keep: npt.NDArray[np.bool_], broken: dict[int, str]) -> Lines:
    if keep.all():
        return Lines(texts, broken)
    moved = np.cumsum(keep) - 1
    kept = {int(moved[i]): why for i, why in broken.items() if keep[i]}
    return Lines(texts.filter(pa.array(keep)), kept, np.flatnonzero(keep))
