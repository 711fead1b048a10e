-- Without GROUP BY: one row while there is anything in the window, none while there is not.
CREATE STREAM open_auction (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

SELECT COUNT(*) AS auctions, SUM(start_price) AS total, MIN(start_price) AS lowest, MAX(seller_id) AS last_seller
FROM open_auction WINDOW(RANGE 15 MINUTES)
WHERE category <> 'toys';
