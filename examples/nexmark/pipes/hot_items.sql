-- The items with the most bids in the last ten seconds, at any time.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM '../data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT item
FROM (SELECT b1.auction AS item, COUNT(*) AS num
      FROM bid [RANGE 10 SECONDS] b1
      GROUP BY b1.auction)
WHERE num >= ALL (SELECT COUNT(*)
                  FROM bid [RANGE 10 SECONDS] b2
                  GROUP BY b2.auction);
