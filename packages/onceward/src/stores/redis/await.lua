-- Marks a record as awaited, so that its next writer publishes the change. Other writers publish nothing.
--
--   KEYS[1]  the record
--   ARGV[1]  the revision that was seen, 8 characters
--
--   returns  the value that is there, or nil
--
-- The mark is the second highest bit of the revision, where no safe integer reaches. A record that has changed is not
-- marked: its reader will see that it need not wait.

local head = redis.call('GETRANGE', KEYS[1], '0', '7')
if head == ARGV[1] then
  redis.call('SETRANGE', KEYS[1], '0', string.char(string.byte(head) + 32))
end
return redis.call('GET', KEYS[1])
