CREATE STREAM request (id BIGINT, client STRING, name STRING, at TIMESTAMP)
  FROM 'examples/dns/request.csv' TIMESTAMP BY at
  KEY (id)
  CONSTRAINT answered_soon (id) REFERENCES response (id) WITHIN 6 SECONDS;  -- or never

CREATE STREAM response (id BIGINT, code STRING, at TIMESTAMP)
  FROM 'examples/dns/response.csv' TIMESTAMP BY at
  KEY (id)
  CONSTRAINT asked_before (id) REFERENCES request (id) WITHIN 0 SECONDS;

-- Which names were asked for, and what was the answer?
SELECT q.client, q.name, r.code, q.at AS asked, r.at AS answered
FROM request q WINDOW(RANGE 10 MINUTES), response r WINDOW(RANGE 10 MINUTES)
WHERE q.id = r.id;

SHOW CONSTRAINTS;
