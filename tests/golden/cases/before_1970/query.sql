-- Times are numbers of microseconds, many of them negative: windows keep to their grid.
CREATE STREAM pulse (kind STRING, size INT, at BIGINT)
  FROM '../../data/pulse.csv' TIMESTAMP BY at DELAY 3 MICROSECONDS;

SELECT kind, SUM(size) AS total, COUNT(*) AS pulses
FROM pulse WINDOW(RANGE 7 SLIDE 4)
GROUP BY kind;

SELECT a.kind, a.size AS smaller, b.size AS larger
FROM pulse a WINDOW(RANGE 3), pulse b WINDOW(RANGE 5 SLIDE 2)
WHERE a.kind = b.kind AND a.size < b.size;
