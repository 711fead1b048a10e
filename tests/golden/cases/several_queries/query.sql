-- Three results of one file: a derived stream that nobody reads, and two queries over another.
CREATE STREAM temperature (sensor INT, room STRING, celsius DOUBLE, at TIMESTAMP)
  FROM '../../data/temperature.csv' TIMESTAMP BY at DELAY 5 SECONDS;

CREATE STREAM warm AS
  SELECT sensor, room, celsius FROM temperature WHERE celsius > 24;

CREATE STREAM warm_rooms AS
  SELECT DISTINCT room FROM temperature WINDOW(RANGE 5 SECONDS) WHERE celsius > 24;

SELECT sensor, celsius FROM warm WHERE room IS NULL;

SELECT room, COUNT(*) AS warm_readings FROM warm WINDOW(RANGE 20 SECONDS SLIDE 5 SECONDS) GROUP BY room;
