-- Reserves a block of revisions that is never given out again.
--
--   KEYS[1]  the last revision reserved so far
--   ARGV[1]  how many to reserve
--
--   returns  the first of them, as decimal text
--
-- The counter never falls behind the server's clock (2,048 revisions a millisecond), so that revisions still rise
-- when the counter itself was lost with the data. They stay below 2^53 until the year 2109.

local time = redis.call('TIME')
local clock = (time[1] * 1000 + math.floor(time[2] / 1000)) * 2048
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
local first = math.max(clock, last + 1)
redis.call('SET', KEYS[1], string.format('%.0f', first + ARGV[1] - 1))
return string.format('%.0f', first)
