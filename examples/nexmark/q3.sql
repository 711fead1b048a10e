-- Local item suggestion: who is selling in OR, ID or CA, in category 10, and what?

CREATE STREAM person (ts_us BIGINT, id BIGINT, name STRING, city STRING, state STRING)
  FROM 'data/person' TIMESTAMP BY ts_us DELAY 1 SECOND;
CREATE STREAM auction (ts_us BIGINT, id BIGINT, initial_bid BIGINT, reserve BIGINT, seller BIGINT,
                       category BIGINT, expires_us BIGINT)
  FROM 'data/auction' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT p.name, p.city, p.state, a.id
FROM auction WINDOW(RANGE 1 HOUR) a, person WINDOW(RANGE 1 HOUR) p
WHERE a.seller = p.id AND a.category = 10 AND p.state IN ('OR', 'ID', 'CA');
