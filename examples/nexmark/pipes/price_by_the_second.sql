-- The average price of bids in the last ten seconds, second by second.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM '../data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT AVG(price) AS price
FROM bid WINDOW(RANGE 10 SECONDS) GRANULARITY(1 SECOND);
