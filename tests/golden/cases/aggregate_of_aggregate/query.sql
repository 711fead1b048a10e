-- At every instant, the largest and the smallest number of readings of a room within half a minute.
CREATE STREAM temperature (sensor INT, room STRING, celsius DOUBLE, at TIMESTAMP)
  FROM '../../data/temperature.csv' TIMESTAMP BY at DELAY 5 SECONDS;

SELECT MAX(busy.readings) AS most, MIN(busy.readings) AS fewest, COUNT(*) AS rooms
FROM (SELECT room, COUNT(*) AS readings
      FROM temperature WINDOW(RANGE 30 SECONDS)
      GROUP BY room) busy;
