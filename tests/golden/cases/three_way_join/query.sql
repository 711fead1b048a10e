-- Bids with the auction they are for and what was known of the bidder.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

CREATE STREAM open_auction (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

CREATE STREAM person (person_id INT, name STRING, city STRING, email STRING, address STRING, at TIMESTAMP)
  FROM '../../data/person.jsonl' TIMESTAMP BY at DELAY 15 MINUTES;

SELECT b.item_id, o.category, p.name, p.city, b.price - o.start_price AS above
FROM bid b WINDOW(RANGE 10 MINUTES)
JOIN open_auction o WINDOW(RANGE 3 HOURS) ON b.item_id = o.item_id
JOIN person p WINDOW(RANGE 4 HOURS) ON b.bidder_id = p.person_id
WHERE b.price > o.start_price;
