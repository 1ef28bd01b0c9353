/**
 * Replaces records whose revisions are still the expected ones, each on its own.
 *
 *   KEYS[i]        a record; also the channel that wakes those who wait for it
 *   ARGV[3i - 2]   the expected revision, 8 characters: the head of the stored value
 *   ARGV[3i - 1]   the next value
 *   ARGV[3i]       after how many milliseconds Redis may forget it; empty is never
 *
 *   returns        for each: 1 when it was replaced, else the value that is there, or nil; or why it was refused
 *
 * Every call into Redis costs about as much as a plain command, so there are two, and no decoding. Only a record that
 * somebody awaits (see `await.lua.ts`) is worth a third: its head differs from the expected one in a single bit.
 *
 * A refusal of one record must not hide what was done to the others: nothing here may raise an error. A user without
 * the right to publish can still write; waiters then poll.
 */
export const SWAP = `
local pcall, args, replies = redis.pcall, ARGV, {}
for at, key in ipairs(KEYS) do
  local expected, value, lifetime = args[at * 3 - 2], args[at * 3 - 1], args[at * 3]
  local head = pcall('GETRANGE', key, '0', '7')
  local same = head == expected
  local awaited = not same and type(head) == 'string' and #head == 8
    and head == string.char(string.byte(expected) + 32) .. string.sub(expected, 2)
  if same or awaited then
    local done
    if lifetime == '' then
      done = pcall('SET', key, value)
    else
      done = pcall('SET', key, value, 'PX', lifetime)
    end
    replies[at] = done.err and done or 1
    if awaited and not done.err then pcall('PUBLISH', key, '') end
  else
    replies[at] = pcall('GET', key)
  end
end
return replies
`;
