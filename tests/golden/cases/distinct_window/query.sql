-- Who bid on something in the last twenty minutes, and where.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

SELECT DISTINCT bidder_id, channel
FROM bid WINDOW(RANGE 20 MINUTES);
