-- The bars of each channel: the first, highest, lowest and last price of every four hours, and of a hopping window.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

SELECT channel, FIRST(price) AS opened, MAX(price) AS high, MIN(price) AS low, LAST(price) AS closed
FROM bid WINDOW(RANGE 4 HOURS SLIDE 4 HOURS)
GROUP BY channel;

SELECT FIRST(b.price) AS opened, LAST(b.price) AS closed, LAST(b.channel) AS channel
FROM bid b WINDOW(RANGE 4 HOURS SLIDE 90 MINUTES)
WHERE b.bidder_id IN (SELECT bidder_id FROM bid WINDOW(ROWS 20));
