-- The closing price and seller of each auction: the highest bid, or what it began with.

CREATE STREAM bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING)
  FROM '../data/bid' TIMESTAMP BY ts_us DELAY 1 SECOND;
CREATE STREAM auction (ts_us BIGINT, id BIGINT, initial_bid BIGINT, reserve BIGINT, seller BIGINT,
                       category BIGINT, expires_us BIGINT)
  FROM '../data/auction' TIMESTAMP BY ts_us DELAY 1 SECOND;
-- An auction closes when it expires. Its row arrives when it opens, so rows are not in the order of expiry.
CREATE STREAM closed_auction (ts_us BIGINT, id BIGINT, initial_bid BIGINT, reserve BIGINT, seller BIGINT,
                              category BIGINT, expires_us BIGINT)
  FROM '../data/auction' TIMESTAMP BY expires_us DELAY 1 MINUTE;

CREATE STREAM current_price AS
  SELECT p.item, p.price, o.seller
  FROM ((SELECT auction AS item, price FROM bid WINDOW(RANGE 1 MINUTE))
        UNION ALL
        (SELECT id AS item, initial_bid AS price FROM auction WINDOW(RANGE 1 MINUTE))) p,
       closed_auction c WINDOW(NOW),
       auction o WINDOW(RANGE 1 MINUTE)
  WHERE p.item = c.id AND c.id = o.id;

SELECT item, seller, MAX(price) AS price
FROM current_price WINDOW(NOW)
GROUP BY item, seller;
