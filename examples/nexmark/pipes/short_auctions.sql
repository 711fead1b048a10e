-- Auctions that closed within a second of their opening.

CREATE STREAM auction (ts_us BIGINT, id BIGINT, initial_bid BIGINT, reserve BIGINT, seller BIGINT,
                       category BIGINT, expires_us BIGINT)
  FROM '../data/auction' TIMESTAMP BY ts_us DELAY 1 SECOND;
-- An auction closes when it expires. Its row arrives when it opens, so rows are not in the order of expiry.
CREATE STREAM closed_auction (ts_us BIGINT, id BIGINT, initial_bid BIGINT, reserve BIGINT, seller BIGINT,
                              category BIGINT, expires_us BIGINT)
  FROM '../data/auction' TIMESTAMP BY expires_us DELAY 1 MINUTE;

SELECT o.id, o.seller
FROM auction o WINDOW(RANGE 1 SECOND), closed_auction c WINDOW(NOW)
WHERE o.id = c.id;
