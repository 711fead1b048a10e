-- Highest bid: of each ten seconds.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM 'data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT ts_us, auction, bidder, price, channel
FROM bid WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS)
WHERE price = (SELECT MAX(price) FROM bid WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS));
