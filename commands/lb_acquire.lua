-- LB.ACQUIRE: a leaky bucket, as exact GCRA.
--
-- KEYS[1]  the limiter
-- ARGV[1]  increment, ticks by which the quantity moves the state
-- ARGV[2]  interval, ticks in which one unit leaks
-- ARGV[3]  ticks in a microsecond
-- ARGV[4]  capacity, units
-- ARGV[5]  now_us, microseconds since the epoch instead of TIME, in tests
-- State    lb:<us> <ticks>/<ticks in a microsecond>, the moment at which the
--          bucket is empty again, in microseconds since the epoch and a fraction,
--          expiring when it has come; none means it has come already
-- Reply    limited, capacity, remaining, retry_after and reset_after in
--          milliseconds, rounded up

local name, pattern, format = 'LB.ACQUIRE', '^lb:(%d+) (%d+)/(%d+)$', 'lb:%.0f %.0f/%.0f'
