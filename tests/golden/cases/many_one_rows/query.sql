-- The last offers with the auction that they are for, as long as that is one of the last; not every offer comes in time.
CREATE STREAM recent_offer (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES
  CONSTRAINT after_opening (item_id) REFERENCES recent_listing (item_id) WITHIN 0 ROWS
  CLUSTERED BY item_id WITHIN 40 ROWS;                                     -- some are further apart

CREATE STREAM recent_listing (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES
  KEY (item_id)
  CONSTRAINT soon_sold (item_id) REFERENCES recent_sale (item_id) WITHIN 5 ROWS;  -- some take longer

CREATE STREAM recent_sale (item_id INT, buyer_id INT, at TIMESTAMP)
  FROM '../../data/closed_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES
  KEY (item_id);

SELECT o.item_id, o.price, l.category, s.buyer_id
FROM recent_offer o WINDOW(ROWS 25), recent_listing l WINDOW(ROWS 20), recent_sale s WINDOW(RANGE 1 HOUR)
WHERE o.item_id = l.item_id AND l.item_id = s.item_id AND l.start_price < 40;
