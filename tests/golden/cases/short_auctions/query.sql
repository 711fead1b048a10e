-- Auctions that closed within five hours of their opening (QL-04).
CREATE STREAM open_auction (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

CREATE STREAM closed_auction (item_id INT, buyer_id INT, at TIMESTAMP)
  FROM '../../data/closed_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

SELECT open_auction.*
FROM open_auction O WINDOW(RANGE 5 HOURS),
     closed_auction C
WHERE O.item_id = C.item_id;
