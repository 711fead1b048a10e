-- Two hundred machines, each with three sensors: the humidity and the temperature of the air around it, and
-- the temperature of its surface. Each sensor sends ten readings a second, up to two seconds late. If a surface
-- is colder than the dew point of the air, water collects on it, and the machine fails.

CREATE STREAM humidity (machine INT, value DOUBLE CHECK (value BETWEEN 1 AND 100), at TIMESTAMP)
  FROM 'generator://?rows=200000&seed=1&keys=200&interval=500us&disorder=2s&turn=12000&start=2026-01-01T06:00:00&batch=20000&value.min=35&value.max=95'
  TIMESTAMP BY at
  DELAY 2 SECONDS;

CREATE STREAM air (machine INT, value DOUBLE CHECK (value BETWEEN -40 AND 60), at TIMESTAMP)
  FROM 'generator://?rows=200000&seed=2&keys=200&interval=500us&disorder=2s&turn=12000&start=2026-01-01T06:00:00&batch=20000&value.min=15&value.max=28'
  TIMESTAMP BY at
  DELAY 2 SECONDS;

CREATE STREAM surface (machine INT, value DOUBLE CHECK (value BETWEEN -40 AND 60), at TIMESTAMP)
  FROM 'generator://?rows=200000&seed=3&keys=200&interval=500us&disorder=2s&turn=12000&start=2026-01-01T06:00:00&batch=20000&value.min=14&value.max=28.57'
  TIMESTAMP BY at
  DELAY 2 SECONDS;

-- The dew point by the Magnus formula, minus the temperature of the surface, of readings that are no more
-- than ten seconds apart. It rises with humidity and air and falls with surface: `tidegate explain` proves
-- that, and the alert keeps only readings that are the greatest, or the least, of some ten seconds.
CREATE ALERT condensation
  FROM humidity h, air a, surface s
  WITHIN 10 SECONDS
  MATCHING machine
  WHEN 257.14 * (ln(h.value / 100) + 18.678 * a.value / (257.14 + a.value))
       / (18.678 - (ln(h.value / 100) + 18.678 * a.value / (257.14 + a.value))) - s.value > 0;
