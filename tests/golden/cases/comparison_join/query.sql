-- One key and comparisons beside it, over two formats of files.
CREATE STREAM temperature (sensor INT, room STRING, celsius DOUBLE, at TIMESTAMP)
  FROM '../../data/temperature.csv' TIMESTAMP BY at DELAY 5 SECONDS;

CREATE STREAM humidity (sensor INT, percent INT, unit STRING, at TIMESTAMP)
  FROM '../../data/humidity.parquet' TIMESTAMP BY at DELAY 5 SECONDS;

SELECT t.sensor, t.room, t.celsius, h.percent
FROM temperature t WINDOW(RANGE 10 SECONDS), humidity h WINDOW(RANGE 4 SECONDS)
WHERE t.sensor = h.sensor AND h.percent > t.celsius * 3 AND h.unit = 'rel' AND t.room LIKE '%l%';
