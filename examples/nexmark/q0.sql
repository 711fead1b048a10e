-- Pass on: every bid as it is.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM 'data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT ts_us, auction, bidder, price, channel
FROM bid;
