-- Alarms on totals: for each seller when bids come into his range of prices, and for the market as a whole.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

CREATE STREAM open_auction (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

CREATE ALERTS interest
  FROM bid b, open_auction o
  WHERE b.item_id = o.item_id AND b.price >= o.start_price
  ID o.item_id
  WHEN COUNT(*) >= 2;

CREATE ALERTS demand
  FROM bid b, open_auction o WITHIN 6 HOURS
  WHERE b.price BETWEEN o.start_price AND o.start_price + 50 AND o.category IS NOT NULL
  ID o.seller_id REPEAT
  WHEN TOTAL(b.bidder_id + 1) >= 40;

CREATE ALERT busy FROM bid WHERE price > 5 MATCHING channel REPEAT WHEN TOTAL(bidder_id + 1) > 100;
