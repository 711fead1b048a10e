-- The bids on five items.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM '../data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT bid.*
FROM bid
WHERE auction = 1007 OR auction = 1020 OR auction = 2001 OR auction = 2019 OR auction = 1087;
