-- The highest bids of the last ten seconds, at any time.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM '../data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT auction, price
FROM bid WINDOW(RANGE 10 SECONDS)
WHERE price = (SELECT MAX(price) FROM bid WINDOW(RANGE 10 SECONDS));
