-- Rows whose expressions fail become dead letters; the others count.
CREATE STREAM meter (meter INT, ticks BIGINT, divisor INT, code STRING, at TIMESTAMP)
  FROM '../../data/meter.csv' TIMESTAMP BY at;

SELECT meter, ticks DIV divisor AS quotient, ticks + 1 AS next, CAST(code AS INT) AS number,
       CASE WHEN divisor = 0 THEN NULL ELSE 100 / divisor END AS guarded
FROM meter
WHERE divisor <> 0 OR 10 / divisor > 1;

SELECT meter, SUM(ticks) AS total, COUNT(*) AS readings
FROM meter WINDOW(RANGE 12 SECONDS)
GROUP BY meter;
