-- Alerts on totals that differ only in constants: they share one tracker, and have the alarms that they have alone.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

CREATE ALERT low FROM bid b WHERE b.price BETWEEN 5 AND 20 MATCHING channel WHEN COUNT(*) >= 3;
CREATE ALERT middle FROM bid b WHERE b.price > 15 AND b.price <= 60 MATCHING channel WHEN COUNT(*) >= 5;
CREATE ALERT high FROM bid WHERE 55 <= price MATCHING channel WHEN COUNT(*) > 5;

CREATE ALERT often_low FROM bid WITHIN 3 HOURS WHERE price < 30 REPEAT WHEN TOTAL(bidder_id) >= 15;
CREATE ALERT often_high FROM bid WITHIN 3 HOURS WHERE price >= 30 REPEAT WHEN TOTAL(bidder_id) >= 25;
