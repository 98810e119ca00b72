-- A limit of two windows, as users of Redis write it: two counters that expire, and nothing is
-- charged unless both have room.
-- KEYS[1]: the key. ARGV: the maxima of both windows, and their milliseconds.
local names = { KEYS[1] .. ':1', KEYS[1] .. ':2' }
for i = 1, 2 do
  local used = redis.call('GET', names[i])
  if used and tonumber(used) >= tonumber(ARGV[i]) then return 0 end
end
for i = 1, 2 do
  if redis.call('INCR', names[i]) == 1 then redis.call('PEXPIRE', names[i], ARGV[i + 2]) end
end
return 1
