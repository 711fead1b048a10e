-- The closing price and the seller of each auction (QL-06).
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

CREATE STREAM open_auction (item_id INT, seller_id INT, start_price REAL, category STRING, at TIMESTAMP)
  FROM '../../data/open_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

CREATE STREAM closed_auction (item_id INT, buyer_id INT, at TIMESTAMP)
  FROM '../../data/closed_auction.csv' TIMESTAMP BY at DELAY 30 MINUTES;

CREATE STREAM current_price AS
  SELECT P.item_id, P.price, O.seller_id AS seller_id
  FROM ((SELECT item_id, price AS price FROM bid WINDOW(RANGE 2 DAYS))
        UNION ALL
        (SELECT item_id, start_price AS price FROM open_auction WINDOW(RANGE 2 DAYS))) P,
       closed_auction C,
       open_auction O WINDOW(RANGE 2 DAYS)
  WHERE P.item_id = C.item_id AND C.item_id = O.item_id;

CREATE STREAM closing_price AS
  SELECT item_id, seller_id, MAX(P.price) AS price
  FROM current_price P,
  GROUP BY P.item_id, P.seller_id;
