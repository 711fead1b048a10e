-- Sensors that were warm on average over the last minute, looked at every ten seconds.
CREATE STREAM temperature (sensor INT, room STRING, celsius DOUBLE, at TIMESTAMP)
  FROM '../../data/temperature.csv' TIMESTAMP BY at DELAY 5 SECONDS;

SELECT sensor, AVG(celsius) AS average, COUNT(*) AS readings, COUNT(celsius) AS good
FROM temperature WINDOW(RANGE 1 MINUTE SLIDE 10 SECONDS)
GROUP BY sensor
HAVING AVG(celsius) > 20.5 AND COUNT(*) > 2;
