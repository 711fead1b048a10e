-- Average price for a category: of the auctions that closed in the last ten minutes.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM 'data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;
-- An auction closes when it expires. Its row arrives when it opens, so rows are not in the order of expiry.
CREATE STREAM closed_auction (ts_us BIGINT, id BIGINT, initial_bid BIGINT, reserve BIGINT, seller BIGINT,
                              category BIGINT, expires_us BIGINT)
  FROM 'data/auction' TIMESTAMP BY expires_us DELAY 1 MINUTE;
-- The highest bid that arrived while the auction was open, when it closes.
CREATE STREAM closing_price AS
  SELECT c.id, c.seller, c.category, MAX(b.price) AS price
  FROM closed_auction c WINDOW(NOW), bid WINDOW(RANGE 1 MINUTE) b
  WHERE c.id = b.auction AND b.ts_us >= c.ts_us AND b.ts_us < c.expires_us
  GROUP BY c.id, c.seller, c.category;

SELECT category, AVG(price) AS price
FROM closing_price WINDOW(RANGE 10 MINUTES)
GROUP BY category;
