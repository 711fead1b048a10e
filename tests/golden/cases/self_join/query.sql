-- Bids that outbid others: on an item for which someone else bid less within the last hour.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

SELECT later.item_id, earlier.bidder_id AS outbid, later.bidder_id AS by_bidder, later.price - earlier.price AS raised
FROM bid later, bid earlier WINDOW(RANGE 1 HOUR)
WHERE later.item_id = earlier.item_id AND later.bidder_id <> earlier.bidder_id AND earlier.price < later.price;
