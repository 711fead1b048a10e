-- Every minute the last ten seconds: most readings are in no window at all.
CREATE STREAM temperature (sensor INT, room STRING, celsius DOUBLE, at TIMESTAMP)
  FROM '../../data/temperature.csv' TIMESTAMP BY at DELAY 5 SECONDS;

SELECT sensor, COUNT(*) AS readings, MAX(celsius) AS peak
FROM temperature WINDOW(RANGE 10 SECONDS SLIDE 1 MINUTE)
GROUP BY sensor;
