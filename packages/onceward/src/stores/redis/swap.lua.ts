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
 * Every call into Redis costs about as much as a plain command, so there are three, and no decoding.
 */
export const SWAP = `
if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then
  return redis.call('GET', KEYS[1])
end
if ARGV[3] == '' then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
redis.call('PUBLISH', KEYS[1], '')
return 1
`;
