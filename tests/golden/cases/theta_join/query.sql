-- No key at all: readings of different sensors within two seconds, the later one far warmer.
CREATE STREAM temperature (sensor INT, room STRING, celsius DOUBLE, at TIMESTAMP)
  FROM '../../data/temperature.csv' TIMESTAMP BY at DELAY 5 SECONDS;

SELECT a.sensor AS cold, b.sensor AS warm, b.celsius - a.celsius AS difference
FROM temperature a WINDOW(RANGE 2 SECONDS), temperature b
WHERE a.sensor <> b.sensor AND a.celsius + 8 < b.celsius;
