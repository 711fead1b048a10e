-- Convert the prices of bids from dollars to euros; dol_to_euro is a function that is registered from Python.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM '../data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT auction, dol_to_euro(price) AS price, bidder
FROM bid;
