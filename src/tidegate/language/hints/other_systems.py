r"""Functions, types, columns and clauses of other systems, and what to write here instead.

The systems are Flink, Spark, PostgreSQL, RisingWave and ksqlDB, and their relatives. Advice is a template; `advice`
fills in names that it finds in the text: `{stream}` and `{key}` of the query, `{size}` and `{slide}` of the window,
`{partition}` and `{order}` of an OVER, and the named groups of a clause's pattern.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NO_CLOCK = (
    "a query reads no clock, so that its result depends on the data alone: use a time column, "
    "or a stream without TIMESTAMP BY, whose rows get the time of their arrival"
)
_OWN_FUNCTION = "not available; register your own in Python: session.function(…)"
_OWN_AGGREGATE = "not available; register your own in Python: session.aggregate(…)"
_WINDOW = (
    "write the window after its stream: FROM {stream} WINDOW(RANGE {size} SLIDE {slide}); "
    "the result of a window is valid from the window's end"
)
_SESSION = (
    "there are no session windows; SELECT DISTINCT {key} FROM {stream} WINDOW(RANGE {size}) "
    "is valid from the first row of a session until {size} after its last"
)
_CUMULATE = "there are no cumulative windows; FROM {stream} WINDOW(RANGE {size}) has the last {size} at every instant"
_BOUNDS = "remove it: every result row has valid_from and valid_to, and valid_from is the end of a window with SLIDE"
_TOP = "for the first n rows of every instant write ORDER BY {order} LIMIT n{per}"
_BEFORE = (
    "join the stream with itself: FROM {stream} WINDOW(PARTITION BY {partition} ROWS 2) o, {stream} n "
    "WHERE o.{partition} = n.{partition} AND o.{by} < n.{by}"
)
_OVER = "give the stream a window and aggregate it: FROM {stream} WINDOW({frame}){group}"
_NEWEST = "join with the newest row of each key: JOIN {stream} WINDOW(PARTITION BY {key} ROWS 1)"
_GROUPINGS = "write a query for each grouping, with UNION ALL between them"
_PATTERNS = (
    "there is no pattern matching; join the stream with itself, each with a window, "
    "or watch for combinations with CREATE ALERT … WITHIN"
)
_NO_REGEX = "LIKE has % and _; for regular expressions register a function in Python: session.function(…)"
_NO_JSON = "JSON is parsed when it is read: declare a column of type MAP<STRING, DOUBLE>, ARRAY<STRING> or the like"

_FUNCTIONS = {
    _NO_CLOCK: "now proctime sysdate getdate clock_timestamp unix_timestamp current_row_timestamp current_watermark",
    "results depend on the data alone; use a column": "rand random uuid gen_random_uuid",
    _OWN_AGGREGATE: "string_agg listagg group_concat array_agg collect_list collect_set json_agg histogram mode",
    "write the formula with AVG, VAR_POP and STDDEV_POP": "corr covar_pop covar_samp regr_slope regr_intercept regr_r2",
    "CAST(t AS STRING) gives ISO 8601; date_trunc('day', t), year(t), month(t) and so on give parts of it": (
        "date_format to_char strftime format_timestamp format_datetime timestamptostring"
    ),
    "write CAST(x AS TIMESTAMP)": "to_timestamp to_date parse_timestamp str_to_date strptime stringtotimestamp date",
    "write from_epoch_micros(x), with x in microseconds": (
        "from_unixtime to_timestamp_ltz timestamp_millis timestamp_micros"
    ),
    "write epoch_micros(t), or epoch_micros(t) DIV 1000 for milliseconds": "unix_micros unix_millis to_unixtime",
    "write epoch_seconds(t)": "unix_seconds to_unix_timestamp",
    "write date_trunc('minute', t); for windows: FROM {stream} WINDOW(RANGE {size} SLIDE {slide})": (
        "time_bucket date_bin toStartOfInterval toStartOfMinute toStartOfHour"
    ),
    "subtract them: a - b is an INTERVAL, epoch_seconds(a) - epoch_seconds(b) a number": (
        "datediff date_diff timestampdiff age months_between"
    ),
    "write t + INTERVAL 1 DAY": "dateadd date_add date_sub timestampadd add_months",
    "write date_part('hour', t), hour(t) and so on": "extract datepart day_of_week weekday weekofyear week",
    "write dayofweek(t): 1 is Sunday": "dow isodow",
    "write coalesce(a, b)": "nvl ifnull isnull",
    "write if(condition, a, b) or CASE": "nvl2 iif decode",
    "write length(s)": "len string_length octet_length",
    "write lower(s)": "lcase",
    "write upper(s)": "ucase",
    "write substring(s, start, length)": "mid substring_index",
    "write position(part, s)": "charindex locate indexof",
    "write trim(s)": "btrim",
    "write starts_with(s, part)": "startswith",
    "write ends_with(s, part)": "endswith",
    "write concat(a, b) or a || b": "concat_ws format printf format_string",
    _NO_REGEX: "regexp regexp_like regexp_matches regexp_replace regexp_extract regexp_substr rlike similar_to ilike",
    _OWN_FUNCTION: (
        "split split_part lpad rpad repeat initcap translate overlay ascii chr md5 sha1 sha256 sha2 hash crc32 "
        "asin acos sinh cosh tanh factorial levenshtein to_base64 from_base64 url_decode"
    ),
    _NO_JSON: "json_value json_query json_extract json_extract_scalar get_json_object from_json parse_json to_json",
    "write sign(x)": "signum sgn",
    "write trunc(x)": "truncate",
    "write x * x": "square",
    "write power(x, 1.0 / 3)": "cbrt",
    "write x * pi() / 180": "radians",
    "write x * 180 / pi()": "degrees",
    "write x = CAST('NaN' AS DOUBLE)": "isnan is_nan",
    "write CAST(x AS T); a row whose cast fails becomes a dead letter": "try_cast safe_cast convert to_number",
    "write COUNT(DISTINCT x), which is exact": (
        "approx_count_distinct approx_distinct count_distinct hll uniq uniqExact ndv"
    ),
    "write COUNT(*) FILTER (WHERE …)": "count_if countif sum_if sumif",
    "write QUANTILE(x, 0.9)": "percentile percentile_cont percentile_disc percentile_approx approx_percentile "
    "approx_quantile",
    "write AVG(x)": "mean average",
    "write FIRST(x)": "first_value earliest_by_offset any_value anyvalue",
    "write LAST(x)": "last_value latest_by_offset",
    "write ARG_MAX(a, b)": "max_by argmax",
    "write ARG_MIN(a, b)": "min_by argmin",
    "write STDDEV(x)": "stddev_samp std",
    "write VARIANCE(x)": "var_samp var",
    "write BOOL_AND(x)": "every",
    _TOP: "row_number rank dense_rank percent_rank cume_dist ntile topk nth_value",
    _BEFORE: "lag",
    "later rows are not known yet; start from the later row: " + _BEFORE: "lead",
    _WINDOW: "tumble hop window tumbling hopping",
    _SESSION: "session session_window",
    _CUMULATE: "cumulate",
    _BOUNDS: (
        "tumble_start tumble_end tumble_rowtime hop_start hop_end hop_rowtime session_start session_end "
        "window_start window_end window_time"
    ),
    _GROUPINGS: "rollup cube grouping grouping_id",
    "arrays cannot be unfolded into rows; overlap(a, b) and a SUBSET OF b compare them": (
        "unnest explode flatten posexplode"
    ),
    "write cardinality(a)": "array_length size array_size map_size",
    "write ARRAY[x] SUBSET OF a": "array_contains list_contains has",
    "write a[1] or m['key']": "element_at array_get map_get",
}

FUNCTIONS = {name.lower(): advice for advice, names in _FUNCTIONS.items() for name in names.split()}
"""Advice by the name of a function of other systems."""

_TYPES = {
    "write DOUBLE; amounts that must be exact fit a BIGINT of the smallest unit, such as cents": (
        "decimal numeric number money dec fixed"
    ),
    "write DOUBLE": "float8 float64 double_precision",
    "write REAL": "float4 float32",
    "write INT": "tinyint smallint mediumint int2 int4 int8_t int16 int32 short byte serial uint8 uint16",
    "write BIGINT": "int8 int64 bigserial uint32 uint64 unsigned hugeint",
    "write STRING": "char character nchar nvarchar varchar2 bpchar clob str enum uuid",
    "write STRING, or declare a MAP<STRING, DOUBLE> or ARRAY<STRING>": "json jsonb variant object",
    "there is no type for bytes; write STRING": "bytes bytea binary varbinary blob",
    "write TIMESTAMP: a day is its first instant, 2026-01-01 is read as midnight UTC": "date",
    "write TIMESTAMP, which is in UTC": (
        "datetime datetime2 timestamptz timestamp_ltz timestamp_ntz timestamp_tz timestamp_ms datetime64"
    ),
    "write INTERVAL, or TIMESTAMP with the day": "time timetz",
    "write BOOLEAN": "bit",
    "declare a column for each field": "row struct record tuple nested",
    "write ARRAY<T>, for example ARRAY<INT>": "list multiset",
}

TYPES = {name: advice for advice, names in _TYPES.items() for name in names.split()}
"""Advice by the name of a type of other systems."""

COLUMNS = {
    **dict.fromkeys(
        ("current_timestamp", "current_date", "current_time", "localtimestamp", "localtime", "sysdate"), _NO_CLOCK
    ),
    **dict.fromkeys(("proctime", "rowtime", "_rowtime", "kafka_timestamp"), "use the column that TIMESTAMP BY names"),
    **dict.fromkeys(("window_start", "window_end", "window_time", "windowstart", "windowend", "window"), _BOUNDS),
    **dict.fromkeys(("valid_from", "valid_to"), "every result row has it; inside a query use a time column"),
    "rownum": "write ORDER BY … LIMIT n",
    "all": "write the columns to group by",
}
"""Advice by the name of a column that other systems provide without a declaration."""


class Clause(NamedTuple):
    """A clause of other systems; errors point to the pattern's group `words`, or to the whole match."""

    name: str
    pattern: re.Pattern[str]
    advice: str


def _clause(name: str, pattern: str, advice: str) -> Clause:
    """Return a clause that begins with a word; a blank in its pattern matches any space."""
    return _symbol_clause(name, rf"(?<!\w)(?:{pattern})", advice)


def _symbol_clause(name: str, pattern: str, advice: str) -> Clause:
    return Clause(name, re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), advice)


_DURATION = r"(?:interval\s*)?'?\s*\d+\s*'?\s*[a-z]*'?"
_CALL = r"\w+\s*\([^()]*\)\s*(?P<words>over)\s*\([^()]*\)"

CLAUSES = (
    # ---- windows
    _clause("TABLE(TUMBLE(…))", r"table\s*\(\s*tumble\s*\(\s*table (?P<stream>\w+)[^;]*?\)\s*\)", _WINDOW),
    _clause("TABLE(HOP(…))", r"table\s*\(\s*hop\s*\(\s*table (?P<stream>\w+)[^;]*?\)\s*\)", _WINDOW),
    _clause("TABLE(CUMULATE(…))", r"table\s*\(\s*cumulate\s*\(\s*table (?P<stream>\w+)[^;]*?\)\s*\)", _CUMULATE),
    _clause("TABLE(SESSION(…))", r"table\s*\(\s*session\s*\(\s*table (?P<stream>\w+)[^;]*?\)\s*\)", _SESSION),
    _clause("a window function in FROM", r"(?P<words>(tumble|hop)\s*\()\s*(?P<stream>\w+)\s*,[^;()]*\)", _WINDOW),
    _clause("WINDOW SESSION", r"(?P<words>window session)\s*\([^()]*\)", _SESSION),
    _clause("WINDOW TUMBLING", r"(?P<words>window tumbling)\s*\([^()]*\)", _WINDOW),
    _clause("WINDOW HOPPING", r"(?P<words>window hopping)\s*\([^()]*\)", _WINDOW),
    _clause("WINDOW(SESSION …)", r"window\s*\(\s*(?P<words>session)\b[^()]*\)", _SESSION),
    _clause("WINDOW(TUMBLING …)", r"window\s*\(\s*(?P<words>tumbling|tumble|hopping|hop)\b[^()]*\)", _WINDOW),
    _clause("this window", r"window\s*\(\s*(?P<words>(sliding |last )?\d+ [a-z]+)\s*\)", "write WINDOW(RANGE {size})"),
    _clause("window(…).start", r"window\s*\([^()]*\)\s*(?P<words>\.\s*(start|end))\b", _BOUNDS),
    _clause(
        "a duration in quotes",
        rf"(?P<before>range|slide|delay|idle after|within|min|max)\s*(?P<words>(?=interval|'){_DURATION})",
        "write {before} {size}",
    ),
    _clause("a named window", r"over (?P<words>\w+)\b(?=[^;]*\bwindow \w+ as\b)", _OVER),
    # ---- OVER
    _clause("{words}", r"(row_number|rank|dense_rank|ntile)\s*\([^()]*\)\s*(?P<words>over)\s*\([^()]*\)", _TOP),
    _clause("QUALIFY", rf"(?P<words>qualify) {_CALL}".replace("(?P<words>over)", "over"), _TOP),
    _clause("LAG", r"(?P<words>lag\s*\([^()]*\)\s*over)\s*\([^()]*\)", _BEFORE),
    _clause("LEAD", r"(?P<words>lead\s*\([^()]*\)\s*over)\s*\([^()]*\)", FUNCTIONS["lead"]),
    _clause("OVER", _CALL, _OVER),
    _clause("{words}", r"(?P<words>try_cast|safe_cast)\s*\([^;]*? as\b", FUNCTIONS["try_cast"]),
    # ---- streams and tables
    _clause(
        "WATERMARK FOR",
        rf"(?P<words>watermark for (?P<time>\w+)) as[^;()]*?(?P<delay>{_DURATION})\s*(?=\))",
        "write the time and the delay after FROM '…': TIMESTAMP BY {time} DELAY {size}",
    ),
    _clause(
        "WATERMARK FOR",
        r"(?P<words>watermark for (?P<time>\w+)) as[^;()]*",
        "write after FROM '…': TIMESTAMP BY {time}",
    ),
    _clause("WATERMARK", rf"(?P<words>watermark)\s+{_DURATION}", "write DELAY {size}"),
    _clause(
        "PRIMARY KEY", r"(?P<column>\w+) \w+ (?P<words>primary key)(?=\s*[,)])", "write KEY ({column}) after FROM '…'"
    ),
    _clause("PRIMARY KEY", r"(?P<words>primary key)\s*(?P<columns>\([^()]*\))?", "write KEY {columns} after FROM '…'"),
    _clause("NOT NULL", r"\w+ \w+ (?P<words>not null)", "remove it; WHERE x IS NOT NULL leaves out rows"),
    _clause("DEFAULT", r"\w+ \w+ (?P<words>default)\b", "remove it; coalesce(x, 0) replaces NULL"),
    _symbol_clause(
        "a computed column", r"[(,]\s*\w+ (?P<words>as)\b", "compute it in a query: CREATE STREAM … AS SELECT …"
    ),
    _clause("CREATE SOURCE", r"create (?P<words>source) (?P<name>\w+)", "write CREATE STREAM {name} (…) FROM '…'"),
    _clause(
        "WITH in place of FROM",
        r"create (stream|table|source) \w+\s*\([^;]*?\)\s*(?P<words>with)\s*\(",
        "say where the rows come from, before WITH: FROM '{path}'",
    ),
    _clause(
        "CREATE SINK",
        r"create (?P<words>sink) (?P<name>\w+)( from (?P<stream>\w+))?",
        "write INSERT INTO 'folder' SELECT * FROM {stream}",
    ),
    _clause("CREATE FUNCTION", r"create (or replace )?(temporary )?(?P<words>function)\b", _OWN_FUNCTION),
    _clause(
        "CREATE VIEW",
        r"(?P<words>create (or replace )?(temporary )*view)( if not exists)? (?P<name>\w+)",
        "write CREATE STREAM {name} AS SELECT …",
    ),
    _clause(
        "CREATE TABLE … AS",
        r"(?P<words>create table) (?P<name>\w+) as\b",
        "write CREATE STREAM {name} AS SELECT …",
    ),
    _clause(
        "{words}", r"(?P<words>if (not )?exists)\b", "remove it; DROP a stream before creating another with its name"
    ),
    _clause(
        "OR REPLACE",
        r"create (?P<words>or replace)\b",
        "remove it; DROP a stream before creating another with its name",
    ),
    _clause(
        "a sink with a name",
        r"insert into (?P<words>(?P<name>[a-z_][\w.]*))",
        "write the folder in quotes: INSERT INTO '{name}' SELECT …",
    ),
    _clause("SELECT … INTO", r"(?P<words>into (?P<name>\w+))", "write INSERT INTO '{name}' SELECT …"),
    # ---- types
    _clause("DOUBLE PRECISION", r"(?P<words>double precision)\b", "write DOUBLE"),
    _clause("CHARACTER VARYING", r"(?P<words>(character|char) varying)\b", "write STRING"),
    _clause("a time zone of a type", r"timestamp(\(\d\))? (?P<words>with(out)? (local )?time zone)", "write TIMESTAMP"),
    _clause("{words}", r"(?P<words>(?P<type>\w+)\s*\[\s*\d*\s*\])(?=\s*[,)])", "write ARRAY<{type}>"),
    _clause("{words}", r"(?P<words>row|struct)\s*[<(]", "declare a column for each field"),
    # ---- queries
    _clause(
        "EMIT CHANGES",
        r"(?P<words>emit changes)\b",
        "write EMIT EARLY; without it, a value is reported once, when its end is known",
    ),
    _clause(
        "{words}",
        r"(?P<words>emit (on window close|final))\b",
        "remove it: a value is reported once, when its end is known",
    ),
    _clause("MATCH_RECOGNIZE", r"(?P<words>match_recognize)\s*\(", _PATTERNS),
    _clause("FOR SYSTEM_TIME", r"(?P<stream>\w+)( as \w+)? (?P<words>for system_time( as of)?)", _NEWEST),
    _clause("ASOF JOIN", r"(?P<words>(left )?asof (left )?join) (?P<stream>\w+)", _NEWEST),
    _clause(
        "SEMI JOIN", r"(?P<words>(left )?semi join) (?P<stream>\w+)", "write WHERE EXISTS (SELECT * FROM {stream} …)"
    ),
    _clause(
        "ANTI JOIN",
        r"(?P<words>(left )?anti join) (?P<stream>\w+)",
        "write WHERE NOT EXISTS (SELECT * FROM {stream} …)",
    ),
    _clause(
        "WITHIN in a join",
        rf"join (?P<stream>\w+)( as)?( \w+)? (?P<words>within)\s*\(?\s*{_DURATION}",
        "give both streams a window instead: {stream} WINDOW(RANGE {size})",
    ),
    _clause(
        "LATERAL",
        r"(?P<words>lateral)\b\s*\(?",
        "the WHERE of a query inside WHERE or SELECT may read the query around it",
    ),
    _clause("UNNEST", r"(?P<words>unnest)\s*\(", FUNCTIONS["unnest"]),
    _clause("TABLESAMPLE", r"(?P<words>tablesample)\b\s*\(?", "write a condition such as WHERE mod(id, 10) = 0"),
    _clause("GROUPING SETS", r"(?P<words>grouping sets)", _GROUPINGS),
    _clause("TOP", r"select (?P<words>top (?P<n>\d+))", "write ORDER BY … LIMIT {n} at the end"),
    _clause("FETCH", r"(?P<words>fetch (first|next)) (?P<n>\d+) rows? only", "write LIMIT {n}"),
    _clause("LIMIT … BY", r"limit (?P<n>\d+) (?P<words>by) (?P<keys>\w+(\s*,\s*\w+)*)", "write LIMIT {n} PER {keys}"),
    _symbol_clause(
        "* without columns", r"\*\s*(?P<words>except|exclude|replace|rename)\s*\(", "list the columns that are wanted"
    ),
    # ---- expressions
    _symbol_clause("==", r"(?P<words>==)", "write ="),
    _clause(
        "ILIKE",
        r"(?P<left>[\w.]+)( not)? (?P<words>ilike)",
        "write lower({left}) LIKE '…', the pattern in small letters",
    ),
    _clause("{words}", r"(?P<words>rlike|regexp|similar to)\b", _NO_REGEX),
    _symbol_clause("~", r"(?P<words>!?~\*?)", _NO_REGEX),
    _symbol_clause("->", r"(?P<words>->>?)", _NO_JSON),
    _clause(
        "EXTRACT",
        r"(?P<words>extract)\s*\(\s*(?P<unit>\w+) from (?P<of>[\w.]+)\s*\)?",
        "write date_part('{unit}', {of})",
    ),
    _clause(
        "AT TIME ZONE",
        r"(?P<of>[\w.]+) (?P<words>at time zone)",
        "times are UTC; add the offset: {of} + INTERVAL 2 HOURS",
    ),
)
"""Clauses of other systems, more specific ones first."""
