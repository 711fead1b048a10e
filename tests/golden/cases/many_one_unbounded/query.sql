-- Offers with the auction that they are for, however long ago it opened; not everything that is promised here holds.
CREATE STREAM offered (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES
  CONSTRAINT after_opening (item_id) REFERENCES listed (item_id) WITHIN 0 SECONDS
  ORDERED BY item_id WITHIN 40 ROWS;                                       -- some are further apart

CREATE STREAM listed (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES
  KEY (item_id)
  CONSTRAINT soon_sold (item_id) REFERENCES closed (item_id) WITHIN 1 HOUR;  -- some take longer

CREATE STREAM closed (item_id INT, buyer_id INT, at TIMESTAMP)
  FROM '../../data/closed_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES
  KEY (item_id);

CREATE QUERY sold_offer AS
SELECT o.item_id, o.price, l.category
FROM offered o WINDOW(RANGE UNBOUNDED), listed l WINDOW(RANGE UNBOUNDED)
WHERE o.item_id = l.item_id AND l.start_price < 20;

CREATE QUERY recent_sale AS
SELECT l.item_id, l.category, s.buyer_id
FROM listed l WINDOW(RANGE UNBOUNDED), closed s WINDOW(RANGE 2 HOURS)
WHERE l.item_id = s.item_id;
