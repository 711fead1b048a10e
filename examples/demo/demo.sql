-- Twenty machines report their temperature and their vibration, ten readings a second in all, up
-- to two seconds late. Which machine runs hot, and how hard does it shake while it does?

CREATE STREAM temperature (machine INT, celsius DOUBLE, at TIMESTAMP)
  FROM 'generator://?rows=60000&seed=1&keys=20&interval=100ms&disorder=2s&celsius.min=20&celsius.max=90'
  TIMESTAMP BY at
  DELAY 2 SECONDS;

CREATE STREAM vibration (machine INT, mm_per_s DOUBLE, at TIMESTAMP)
  FROM 'generator://?rows=60000&seed=2&keys=20&interval=100ms&disorder=2s&mm_per_s.min=0&mm_per_s.max=12'
  TIMESTAMP BY at
  DELAY 2 SECONDS;

-- A derived stream: at every minute, the machines whose average of the last five minutes is high.
CREATE STREAM hot AS
  SELECT machine, AVG(celsius) AS average, MAX(celsius) AS peak
  FROM temperature WINDOW(RANGE 5 MINUTES SLIDE 1 MINUTE)
  GROUP BY machine
  HAVING AVG(celsius) > 75;

SELECT h.machine, round(h.average, 1) AS average, round(h.peak, 1) AS peak,
       COUNT(*) AS shakes, round(AVG(v.mm_per_s), 2) AS mm_per_s
FROM hot h, vibration v WINDOW(RANGE 1 MINUTE SLIDE 1 MINUTE)
WHERE h.machine = v.machine AND v.mm_per_s > 8
GROUP BY h.machine, h.average, h.peak;
