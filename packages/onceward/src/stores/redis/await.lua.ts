// Generated from await.lua by `npm run embed`.
export const AWAIT = "local head = redis.call('GETRANGE', KEYS[1], '0', '7')\nif head == ARGV[1] then\n  redis.call('SETRANGE', KEYS[1], '0', string.char(string.byte(head) + 32))\nend\nreturn redis.call('GET', KEYS[1])\n";
