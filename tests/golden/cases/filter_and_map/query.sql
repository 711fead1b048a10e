-- Bids in euros (QL-02), with a class of their price; those without a price cost nothing.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

SELECT item_id,
       price * 0.92 AS euros,
       CASE WHEN price >= 75 THEN 'high' WHEN price >= 25 THEN 'middle' WHEN price IS NULL THEN NULL ELSE 'low' END AS class,
       UPPER(COALESCE(channel, 'none')) || '/' || LENGTH(channel) AS via,
       item_id % 7 AS shelf,
       ABS(item_id - 1030) DIV 4 AS distance
FROM bid
WHERE bidder_id <> 3 AND (price > 20 OR price IS NULL);
