-- Claims and replaces records, each on its own.
--
--   KEYS[i]   a record; also the channel that wakes those who wait for it
--   ARGV[1]   for each of them, one behind the other: the expected revision (8 bytes, the head of the stored value; all
--             ones where nothing is expected), the length of the next value's lifetime (1), the lifetime
--   ARGV[i+1] the next value of KEYS[i]
--
--   returns   1 when all were written; else for each: 1 when it was, or the value that is there, or nil, or why it was
--             refused
--
-- The lifetime is after how many milliseconds Redis may forget the value; none is never. The short parts are in one
-- argument because each of its own would cost the driver several strings. The long ones are not: Lua hashes every byte
-- of every string, and would do so once more for what is cut out of another.
--
-- Every call into Redis costs about as much as a plain command, so a claim is one and a replacement two, and nothing is
-- decoded. Only a record that is awaited (see `await.lua`) is worth a third: its head differs from the expected
-- one in a single bit.
--
-- A refusal of one record must not hide what was done to the others: calls give errors instead of raising them. A user
-- without the right to publish can still write; waiters then poll.

local call, sub, byte = redis.pcall, string.sub, string.byte

local function claim(key, value, lifetime)
  if lifetime then return call('SET', key, value, 'NX', 'GET', 'PX', lifetime) or 1 end
  return call('SET', key, value, 'NX', 'GET') or 1
end

local function replace(key, value, lifetime, expected)
  local head = call('GETRANGE', key, '0', '7')
  if type(head) == 'table' then return head end
  local awaited = head ~= expected and #head == 8
    and head == string.char(byte(expected) + 32) .. sub(expected, 2)
  if head ~= expected and not awaited then return call('GET', key) end
  local done
  if lifetime then
    done = call('SET', key, value, 'PX', lifetime)
  else
    done = call('SET', key, value)
  end
  if done.err then return done end
  if awaited then call('PUBLISH', key, '') end
  return 1
end

local args, nothing, replies, isWritten = ARGV, string.rep('\255', 8), {}, true
local frames, from = args[1], 1
for at, key in ipairs(KEYS) do
  local expected, length = sub(frames, from, from + 7), byte(frames, from + 8)
  local lifetime = length > 0 and sub(frames, from + 9, from + 8 + length)
  from = from + 9 + length
  local write = expected == nothing and claim or replace
  local reply = write(key, args[at + 1], lifetime, expected)
  if reply ~= 1 then isWritten = false end
  replies[at] = reply
end
return isWritten and 1 or replies
