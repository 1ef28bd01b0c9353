-- Reads the beginnings of several values.
--
--   KEYS[i]  a record
--   ARGV[1]  the last byte to read
--
--   returns  for each: what stands there, empty where nothing does

local heads = {}
for at, key in ipairs(KEYS) do heads[at] = redis.call('GETRANGE', key, '0', ARGV[1]) end
return heads
