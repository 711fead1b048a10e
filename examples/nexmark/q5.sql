-- Hot items: the auctions with the most bids in the last ten seconds, every two seconds.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM 'data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;

SELECT auction, num
FROM (SELECT auction, COUNT(*) AS num
      FROM bid WINDOW(RANGE 10 SECONDS SLIDE 2 SECONDS)
      GROUP BY auction)
WHERE num >= ALL (SELECT COUNT(*)
                  FROM bid WINDOW(RANGE 10 SECONDS SLIDE 2 SECONDS)
                  GROUP BY auction);
