// Generated from heads.lua by `npm run embed`.
export const HEADS = "local heads = {}\nfor at, key in ipairs(KEYS) do heads[at] = redis.call('GETRANGE', key, '0', ARGV[1]) end\nreturn heads\n";
