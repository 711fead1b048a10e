-- Selection: the bids on certain auctions.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM 'data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT auction, price
FROM bid
WHERE auction % 123 = 0;
