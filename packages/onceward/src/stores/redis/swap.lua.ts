/**
 * Replaces a record if its revision is still the expected one.
 *
 *   KEYS[1]  the record; also the channel that wakes those who wait for it
 *   ARGV[1]  the expected revision, 8 bytes big-endian: the head of the stored value
 *   ARGV[2]  the next value
 *   ARGV[3]  after how many milliseconds Redis may forget it; empty is never
 *
 *   returns  1 when it was replaced, else the value that is there, or nil
 *
 * A user without the right to publish can still write: waiters then poll.
 *
 * Every call into Redis costs about as much as a plain command, so there are three, and no decoding.
 */
export const SWAP = `
local call, key, args = redis.call, KEYS[1], ARGV
if call('GETRANGE', key, '0', '7') ~= args[1] then
  return call('GET', key)
end
if args[3] == '' then
  call('SET', key, args[2])
else
  call('SET', key, args[2], 'PX', args[3])
end
redis.pcall('PUBLISH', key, '')
return 1
`;
