-- Bids and starting prices as one stream of prices, by item, over half an hour.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

CREATE STREAM open_auction (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

SELECT item_id, MAX(price) AS highest, COUNT(*) AS offers
FROM (SELECT item_id, price FROM bid WINDOW(RANGE 30 MINUTES)
      UNION ALL
      SELECT item_id, start_price FROM open_auction WINDOW(RANGE 30 MINUTES)) offer
GROUP BY item_id;
