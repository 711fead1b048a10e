-- People who put something up for sale within a second of registering.

CREATE STREAM person (ts_us BIGINT, id BIGINT, name STRING, city STRING, state STRING)
  FROM '../data/person' TIMESTAMP BY ts_us DELAY 1 SECOND;
CREATE STREAM auction (ts_us BIGINT, id BIGINT, initial_bid BIGINT, reserve BIGINT, seller BIGINT,
                       category BIGINT, expires_us BIGINT)
  FROM '../data/auction' TIMESTAMP BY ts_us DELAY 1 SECOND;

CREATE STREAM new_person AS
  SELECT p.id, p.name
  FROM ISTREAM(person) p;

SELECT DISTINCT id, name
FROM (SELECT p.id, p.name
      FROM new_person WINDOW(RANGE 1 SECOND) p, auction o WINDOW(NOW)
      WHERE p.id = o.seller);
