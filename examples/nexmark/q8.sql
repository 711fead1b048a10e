-- Monitor new users: who registered and opened an auction within the same ten seconds?

CREATE STREAM person (ts_us BIGINT, id BIGINT, name STRING, city STRING, state STRING)
  FROM 'data/person' TIMESTAMP BY ts_us DELAY 1 SECOND;
CREATE STREAM auction (ts_us BIGINT, id BIGINT, initial_bid BIGINT, reserve BIGINT, seller BIGINT,
                       category BIGINT, expires_us BIGINT)
  FROM 'data/auction' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT DISTINCT p.id, p.name
FROM person WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS) p,
     auction WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS) a
WHERE p.id = a.seller;
