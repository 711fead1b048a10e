-- Currency conversion: the bids with their prices in euros.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM 'data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT ts_us, auction, bidder, 0.908 * price AS price, channel
FROM bid;
