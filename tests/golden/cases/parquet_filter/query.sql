-- The conditions on stream columns are checked where the file is read.
CREATE STREAM humidity (sensor INT, percent INT, unit STRING, at TIMESTAMP)
  FROM '../../data/humidity.parquet' TIMESTAMP BY at DELAY 5 SECONDS;

SELECT sensor, MAX(percent) AS most, COUNT(*) AS readings
FROM humidity WINDOW(RANGE 40 SECONDS)
WHERE unit = 'rel' AND percent >= 60 AND sensor IN (1, 2, 4)
GROUP BY sensor;
