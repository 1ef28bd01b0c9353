/**
 * Claims and replaces records, each on its own.
 *
 *   KEYS[i]   a record; also the channel that wakes those who wait for it
 *   ARGV[1]   for each of them, one behind the other: the expected revision (8 bytes, the head of the stored value; all
 *             ones where nothing is expected), the lengths of the next value (4) and of its lifetime (1), these two
 *
 *   returns   1 when all were written; else for each: 1 when it was, or the value that is there, or nil, or why it was
 *             refused
 *
 * The lifetime is after how many milliseconds Redis may forget the value; none is never. All is in one argument because
 * each of its own would cost the driver several strings.
 *
 * Every call into Redis costs about as much as a plain command, so a claim is one and a replacement two, and nothing is
 * decoded. Only a record that somebody awaits (see `await.lua.ts`) is worth a third: its head differs from the expected
 * one in a single bit.
 *
 * A refusal of one record must not hide what was done to the others: calls give errors instead of raising them. A user
 * without the right to publish can still write; waiters then poll.
 */
export const SWAP = `
local call, sub, unpack = redis.pcall, string.sub, struct.unpack

local function claim(key, value, lifetime)
  if lifetime then return call('SET', key, value, 'NX', 'GET', 'PX', lifetime) or 1 end
  return call('SET', key, value, 'NX', 'GET') or 1
end

local function replace(key, value, lifetime, expected)
  local head = call('GETRANGE', key, '0', '7')
  if type(head) == 'table' then return head end
  local awaited = head ~= expected and #head == 8
    and head == string.char(string.byte(expected) + 32) .. sub(expected, 2)
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

local all, from, nothing, replies, isWritten = ARGV[1], 1, string.rep('\\255', 8), {}, true
for at, key in ipairs(KEYS) do
  local expected, valueLength, lifetimeLength, first = unpack('>c8I4B', all, from)
  from = first + valueLength + lifetimeLength
  local value = sub(all, first, first + valueLength - 1)
  local lifetime = lifetimeLength > 0 and sub(all, first + valueLength, from - 1)
  local write = expected == nothing and claim or replace
  local reply = write(key, value, lifetime, expected)
  if reply ~= 1 then isWritten = false end
  replies[at] = reply
end
return isWritten and 1 or replies
`;
