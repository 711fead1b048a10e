-- Joined by item, grouped by seller: elements change buckets twice.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

CREATE STREAM open_auction (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

SELECT o.seller_id, COUNT(*) AS bids, SUM(b.price) AS volume, AVG(b.price) AS average, MIN(b.price) AS lowest
FROM bid b WINDOW(RANGE 45 MINUTES), open_auction o WINDOW(RANGE 2 HOURS)
WHERE b.item_id = o.item_id
GROUP BY o.seller_id;
