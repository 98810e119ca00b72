#!lua name=frs_1
-- The ledger: how much of each key's quota is granted, and to whom. One library for Redis 7.0 or
-- newer and Valkey. A ledger is one hash; each function touches one key, takes the time from the
-- server, and may run when memory is short (`allow-oom`).
--
-- Invariant: a message is absolute and has a number, so it may come late, twice or never; what is
-- granted and not given back never exceeds the maximum, except by uses that hosts have made
-- without asking (EXTRA), or claim after the server has lost writes.
--
-- The library's name ends in its version, and so do the functions' names: two versions live side
-- by side. A version that reads or writes the hash in another way names its keys in another way.
-- A library that is loaded again with REPLACE keeps all ledgers, and learns again.
--
-- FCALL frs_1_KIND 1 LEDGER HOST SEQ WIN FLOOR SPENT EXTRA NEED WANT MAX HOSTS LEARN, and
--   KIND = interval         INTERVAL
--          calendar         START END NEXT_END
--          total
--          sliding          INTERVAL
--          token            RATE PERIOD
--          sliding_counter  INTERVAL
--   HOST and SEQ are u64 as 16 lower-case hex digits. The others are decimal: times in ms, WIN = 0
--   for "I do not know any more", amounts of at most 2^50, MAX the maximum (token: the burst),
--   LEARN how many ms a new master learns before it grants.
--   An array of integers answers, the first one is what the call has met:
--     0 LEARNING                                    nothing: no window, and nothing to grant
--     1 LEARNING                                    stale: a later number of this host is known
--     2 LEARNING WIN BASE ALLOWANCE POOL TURN OTHERS OVER MAX HOLDERS
--     3 LEARNING NOW                                elsewhere: NOW is in neither calendar window
--   LEARNING: ms for which the server grants nothing; BASE: -1 for none; TURN: ms, -1 for never;
--   MAX: the least one seen, which decides; HOLDERS: rows of the hash.
-- FCALL frs_1_holders 1 LEDGER        the hosts with unspent uses, each as 16 hex digits
-- FCALL frs_1_heartbeat 0 LEARN       LEARNING NOW: looks whether the server is a new master
-- FCALL frs_1_epoch 1 KEY EPOCH       the reset epoch: the larger of what is known and EPOCH
-- FCALL frs_1_secret 1 KEY CHECK      the check of the secret: what is known, or else CHECK
--
-- Records of keys whose limits are each machine's own, kept for the machine that takes a key over:
-- FCALL frs_1_put 1 RECORD HOST VERSION LIFE BYTES
--   keeps BYTES for LIFE ms (0: forever). 0: kept; 1: another host has taken the record over since;
--   2: a later VERSION of this host is known. Nothing has changed with 1 and 2.
-- FCALL frs_1_fetch 1 RECORD HOST VERSION
--   an array: BYTES, or nothing. The record is HOST's from now on.
--   VERSION is a u64 as 16 lower-case hex digits. Versions are compared within a host only, and
--   times not at all.
-- The hash of a record: h the host that has it, v the last version of that host, b the bytes.
--
-- The hash:
--   s   start of the window          u   granted in all (token: taken out of the full bucket)
--   e   when all is forgotten        o   of that maybe unspent
--   n   rows                         m   the least max seen lately, mt when
--   p   sliding_counter: u of the window before this one
--   x   sliding, token: nothing ends before     t, f   token: filled up to t, and parts of a token
--   h<HOST> = seq u64, allowance u64, spent u64, base + 1 or 0 u64, big-endian, and
--             sliding, token: ends of the lease and of the row; sliding_counter: start of the
--             window, what of the host is in p

local LOOK_MS = 100              -- between two looks at whose master this is
local LEAST_MAX_MS = 10000       -- so long the least max decides
local SMALL_MAX = 64             -- below it slices go by holders, not by hosts
local TOKEN_PARTS = 86400000     -- parts of a token: a whole number flows back in a ms
local SHARE_MIN_MS = 1000        -- lease of a share: its interval, within these
local SHARE_MAX_MS = 60000
local TOKEN_MIN_MS = 2000        -- lease of tokens: the time to fill the bucket, within these
local TOKEN_MAX_MS = 31622400000
local NOTHING, STALE, GRANTED, ELSEWHERE = 0, 1, 2, 3
local ROW = '>I4I4I8I8I8'

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- What changes when the server becomes a master, or is emptied.
local function identity()
  local info = redis.call('INFO', 'replication', 'commandstats')
  local function found(pattern) return string.match(info, pattern) or '0' end
  return found('master_replid:(%x+)') .. ':' .. found('cmdstat_flushall:calls=(%d+)')
    .. ':' .. found('cmdstat_flushdb:calls=(%d+)')
end

local id, at, born
-- For how many ms the server grants nothing: it may have lost what its forerunner granted, and
-- lets the holders claim it first.
local function learning_ms(now, learn)
  if not at or now < at or now - at >= LOOK_MS then
    local seen = identity()
    if seen ~= id then id, born = seen, now end
    at = now
  end
  born = math.min(born, now)
  return math.max(0, born + learn - now)
end

-- (whole, parts) of (a * b + rest) / by without a rounding, for a < 2^56 and b, rest <= by <= 2^44:
-- long division, eight bits of `a` at a time.
local function divide(a, b, by, rest)
  local whole, parts = 0, 0
  for place = 6, 0, -1 do
    local sum = parts * 256 + math.floor(a / 256 ^ place) % 256 * b
    parts = math.fmod(sum, by)
    whole = whole * 256 + (sum - parts) / by
  end
  local sum = parts + rest
  if sum >= by then return whole + 1, sum - by end
  return whole, sum
end

local NAMES = {'win', 'floor', 'spent', 'extra', 'need', 'want', 'max', 'hosts', 'learn'}

local function read(args, policy)
  local expected = 11 + #policy.own
  if #args ~= expected then
    return nil, 'expected ' .. expected .. ' arguments, found ' .. #args
  end
  local host, seq = args[1], args[2]
  local call = {host = host, high = tonumber(string.sub(seq, 1, 8), 16),
    low = tonumber(string.sub(seq, 9), 16)}
  if #host ~= 16 or #seq ~= 16 or not call.high or not call.low then
    return nil, 'expected 16 hex digits, found "' .. host .. '", "' .. seq .. '"'
  end
  for i = 3, #args do
    local value = tonumber(args[i])
    if not value then return nil, 'expected a number, found "' .. args[i] .. '"' end
    call[NAMES[i - 2] or policy.own[i - 11]] = value
  end
  call.floor = math.max(call.floor, call.spent)
  return call
end

local function no_row() return {high = 0, low = 0, mine = 0, was = 0, base = -1} end

local function clear(row)
  for field in pairs(row) do row[field] = nil end
  for field, value in pairs(no_row()) do row[field] = value end
end

-- Two more words of some policies.
local LEASE = {'until_ms', 'ends_ms'}
local WINDOW = {'s', 'of_p'}

local function unpack_row(packed, words)
  local row = no_row()
  row.is_known = true
  row.high, row.low, row.mine, row.was, row.base = struct.unpack(ROW, packed)
  row.base = row.base - 1
  if words then row[words[1]], row[words[2]] = struct.unpack('>I8I8', packed, 33) end
  return row
end

local function pack_row(row, words)
  local packed = struct.pack(ROW, row.high, row.low, row.mine, row.was, row.base + 1)
  if not words then return packed end
  return packed .. struct.pack('>I8I8', row[words[1]], row[words[2]])
end

local function each_row(key, words, visit)
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if #all[i] == 17 then visit(string.sub(all[i], 2), unpack_row(all[i + 1], words)) end
  end
end

local FIELDS = {'s', 'e', 'u', 'o', 'n', 'm', 'mt'}
local COUNTER_FIELDS = {'s', 'e', 'u', 'o', 'n', 'm', 'mt', 'p'}
local SHARE_FIELDS = {'s', 'e', 'u', 'o', 'n', 'm', 'mt', 'x'}
local TOKEN_FIELDS = {'s', 'e', 'u', 'o', 'n', 'm', 'mt', 'x', 't', 'f'}

local function new_ledger() return {u = 0, o = 0, n = 0, found = {}} end

local function load(key, host, fields, words)
  local found = redis.call('HMGET', key, 'h' .. host, unpack(fields))
  local ledger = new_ledger()
  for i = 1, #fields do
    if found[i + 1] then
      local value = tonumber(found[i + 1])
      ledger[fields[i]], ledger.found[i] = value, value
    end
  end
  return ledger, found[1] and unpack_row(found[1], words) or no_row()
end

local function save(key, host, ledger, row, policy)
  local words, fields = policy.words, policy.fields or FIELDS
  local changed = {'h' .. host, pack_row(row, words)}
  for i = 1, #fields do
    local value = ledger[fields[i]]
    if value and value ~= ledger.found[i] then
      changed[#changed + 1] = fields[i]
      changed[#changed + 1] = value
    end
  end
  for void, of in pairs(ledger.void or {}) do
    redis.call('HSET', key, 'h' .. void, pack_row(of, words))
  end
  for dead in pairs(ledger.dead or {}) do redis.call('HDEL', key, 'h' .. dead) end
  redis.call('HSET', key, unpack(changed))
  if ledger.e and ledger.e ~= ledger.found[2] then
    redis.call('PEXPIREAT', key, ledger.e + 1000)
  end
end

local function asks(call) return call.need + call.want > 0 or call.extra ~= 0 end

-- The policies. Each has: `own`, its arguments; `open`, the start of the window of a ledger that
-- has none (nil: nothing to do, false: elsewhere) and its end; `overlaps`, whether uses of a
-- window that is not this one may count in it; `turn`, until when a grant holds. Some have:
-- `fields` and `words`, what their hashes and rows have more; `roll`, which brings a ledger to now;
-- `prepare`, which looks at a message first; `limit`, for the max; `claim`, for what a host claims;
-- `hold`, which renews the row; `told`, for what a host is told to hold once the server has learnt.

local interval = {own = {'interval'}}
function interval.open(call, now, ledger)
  local is_claim = call.win > 0 and now < call.win + call.interval
  if not is_claim and not asks(call) then return nil end
  ledger.s = is_claim and call.win or now
  ledger.e = ledger.s + call.interval
  return true
end
function interval.overlaps(call, ledger) return call.win + call.interval > ledger.s end
function interval.turn(call, ledger) return ledger.e end

local calendar = {own = {'start', 'stop', 'next_stop'}, turn = interval.turn}
function calendar.overlaps(call, ledger)
  return call.win > ledger.s or call.win == call.start and call.stop > ledger.s
end
function calendar.open(call, now, ledger)
  if now < call.start or now >= call.next_stop then return false end
  ledger.s, ledger.e = call.start, call.stop
  if now >= call.stop then ledger.s, ledger.e = call.stop, call.next_stop end
  local is_claim = call.win == ledger.s or call.win > 0 and calendar.overlaps(call, ledger)
  return (is_claim or asks(call)) and true or nil
end

local total = {own = {}}
function total.open(call, now, ledger)
  if call.win == 0 and not asks(call) then return nil end
  ledger.s = call.win > 0 and call.win or now
  return true
end
function total.overlaps() return true end
function total.turn() return nil end

-- Windows start at multiples of the interval. What was granted in the one before weighs as much
-- as of it is still within an interval from now.
local counter = {own = {'interval'}, fields = COUNTER_FIELDS, words = WINDOW,
  overlaps = interval.overlaps}
function counter.turn(call, ledger) return ledger.s + call.interval end
function counter.open(call, now, ledger)
  local is_aligned = call.win > 0 and call.win % call.interval == 0
  local is_lately = is_aligned and now < call.win + 2 * call.interval
  if not is_lately and not asks(call) then return nil end
  local is_claim = is_lately and now < call.win + call.interval
  ledger.s = is_claim and call.win or now - now % call.interval
  ledger.p, ledger.e = 0, ledger.s + 2 * call.interval
  return true
end
-- A row of the window before is of p; an older one is of nothing, and goes.
function counter.roll(call, now, ledger, row, key)
  if now >= ledger.s + call.interval then
    ledger.dead = {}
    each_row(key, WINDOW, function(host, other)
      if other.s ~= ledger.s then ledger.dead[host] = true end
    end)
    ledger.s = ledger.s + call.interval
    ledger.p, ledger.u, ledger.o, ledger.n = ledger.u, 0, 0, 0
    ledger.e = ledger.s + 2 * call.interval
  end
  if row.s == ledger.s - call.interval then
    row.of_p, row.mine, row.was, row.base, row.is_known = row.mine, 0, 0, -1, nil
  elseif row.s ~= ledger.s then
    clear(row)
  end
end
function counter.hold(call, now, ledger, row) row.s = ledger.s end
-- A host that names the window before is believed if it held more than is known.
function counter.prepare(call, ledger, row)
  row.of_p = row.of_p or 0
  if call.win == ledger.s - call.interval and call.floor > row.of_p then
    ledger.p = ledger.p + call.floor - row.of_p
    row.of_p = call.floor
  end
end
function counter.limit(call, now, ledger)
  local ahead = math.min(call.interval, ledger.s + call.interval - now)
  local whole, parts = divide(ledger.p, ahead, call.interval, 0)
  return ledger.m - whole - (parts > 0 and 1 or 0)
end

-- Visits the rows when one may have ended: `judge` may change a row, and says when to look at it
-- again, or nil: it has ended.
local function sweep(now, ledger, row, key, host, judge)
  if now < ledger.x then return end
  ledger.dead, ledger.void, ledger.x = {}, {}, nil
  each_row(key, LEASE, function(name, other)
    local is_own = name == host
    if is_own then other = row end
    local next_ms = judge(other, name)
    if not next_ms then
      ledger.n = ledger.n - 1
      if is_own then clear(row) else ledger.dead[name] = true end
    elseif not is_own then
      ledger.x = math.min(ledger.x or next_ms, next_ms)
    end
  end)
end

local function renew(ledger, row, until_ms, ends_ms, next_ms)
  row.until_ms, row.ends_ms = until_ms, ends_ms
  ledger.e = math.max(ledger.e or ends_ms, ends_ms)
  ledger.x = math.min(ledger.x or next_ms, next_ms)
end

-- Each host runs the exact log under its share. The one window has the name 1. A share lives for
-- its lease, in which the host admits, and an interval, in which its last uses leave the log.
local sliding = {own = {'interval'}, fields = SHARE_FIELDS, words = LEASE,
  overlaps = total.overlaps}
local function share_ms(call)
  return math.max(SHARE_MIN_MS, math.min(call.interval, SHARE_MAX_MS))
end
function sliding.open(call, now, ledger)
  if not asks(call) and (call.win == 0 or call.floor == 0) then return nil end
  ledger.s = 1
  return true
end
function sliding.roll(call, now, ledger, row, key)
  sweep(now, ledger, row, key, call.host, function(other)
    if now < other.ends_ms then return other.ends_ms end
    ledger.u, ledger.o = ledger.u - other.mine, ledger.o - (other.mine - other.was)
  end)
end
function sliding.prepare(call) if call.win > 0 then call.win = 1 end end
function sliding.hold(call, now, ledger, row)
  local until_ms = now + share_ms(call)
  local ends_ms = until_ms + call.interval
  renew(ledger, row, until_ms, ends_ms, ends_ms)
end
-- A share is used again and again: one beyond the maximum, by a claim that comes too late or by
-- uses without a lease, is not renewed.
function sliding.told(ledger, mine)
  return math.max(0, mine - math.max(0, ledger.u - ledger.m))
end
function sliding.turn(call, ledger, row) return row.until_ms end

-- u is what is taken out of the full bucket, unspent leases too. It flows back, but not below
-- what is unspent, so what is in the bucket and what is out never exceed the burst together. At a
-- lease's end the unspent counts as spent, and the host holds it no more; the row stays until it
-- has flowed back.
local token = {own = {'rate', 'period'}, fields = TOKEN_FIELDS, words = LEASE,
  overlaps = total.overlaps, turn = sliding.turn}
local function fill_ms(call)
  local fill = math.ceil(call.max / call.rate * call.period)
  return math.max(TOKEN_MIN_MS, math.min(fill, TOKEN_MAX_MS))
end
function token.open(call, now, ledger)
  if not total.open(call, now, ledger) then return nil end
  ledger.t, ledger.f = now, 0
  return true
end
local function flow_back(call, ledger, to_ms)
  if to_ms < ledger.t then return end
  local passed = to_ms - ledger.t
  local periods = math.floor(passed / call.period)
  local parts = (passed - periods * call.period) * math.floor(TOKEN_PARTS / call.period)
  local whole, rest = divide(call.rate, parts, TOKEN_PARTS, ledger.f)
  ledger.u, ledger.f, ledger.t = ledger.u - periods * call.rate - whole, rest, to_ms
  if ledger.u <= ledger.o then ledger.u, ledger.f = ledger.o, 0 end
end
-- Tokens flow back up to each lease's end first, below what is unspent only from there on: its
-- host may have spent them in its last ms.
function token.roll(call, now, ledger, row, key)
  local ended = {}
  sweep(now, ledger, row, key, call.host, function(other, name)
    local left = other.mine - other.was
    if now >= other.until_ms and left > 0 then
      ended[#ended + 1] = {at = other.until_ms, left = left}
      other.mine = other.was
      if name ~= call.host then ledger.void[name] = other end
    end
    if now < other.until_ms then return other.until_ms end
    if now < other.ends_ms then return other.ends_ms end
  end)
  table.sort(ended, function(a, b) return a.at < b.at end)
  for _, lease in ipairs(ended) do
    flow_back(call, ledger, lease.at)
    ledger.o = ledger.o - lease.left
  end
  -- A clock that was set back far would stop the flow for as long.
  if ledger.t - now >= fill_ms(call) then ledger.t = now end
  flow_back(call, ledger, now)
end
-- Of a host that the server knows nothing of no more than a full bucket can be out. What a host
-- claims of a lease that has ended is taken once more, and nothing comes back: writes may be lost
-- that have renewed the lease, or have taken back and granted again.
function token.claim(call, now, ledger, row, claimed)
  if not row.is_known then return math.min(claimed, ledger.m) end
  if now >= row.until_ms then return math.max(0, claimed) end
  return claimed
end
function token.hold(call, now, ledger, row)
  local until_ms = now + fill_ms(call)
  renew(ledger, row, until_ms, until_ms + fill_ms(call), until_ms)
end

local function granted(call, now, ledger, row, policy, learning)
  local limit = policy.limit and policy.limit(call, now, ledger) or ledger.m
  local turn, mine = policy.turn(call, ledger, row), row.mine
  if policy.told and learning == 0 then mine = policy.told(ledger, mine) end
  return {GRANTED, learning, ledger.s, row.base, mine, limit - ledger.u,
    turn and math.max(0, turn - now) or -1, ledger.o - (row.mine - row.was),
    math.max(0, ledger.u - limit), ledger.m, ledger.n}
end

-- What a message says of this window: (floor, spent, base).
local function bound(call, ledger, row, policy)
  if call.win == ledger.s then return call.floor, call.spent, -1 end
  if call.win == 0 then return row.mine, row.mine, row.mine end
  if policy.overlaps(call, ledger) then return call.floor, call.floor, call.floor end
  return 0, 0, 0
end

local function set_least_max(call, now, ledger)
  if not ledger.m or call.max <= ledger.m or now - ledger.mt > LEAST_MAX_MS then
    ledger.m, ledger.mt = call.max, now
  end
end

-- NEED is granted whole or not at all, and beyond it up to WANT what is not too much for one.
local function grant(call, ledger, limit)
  local free = math.max(0, limit - ledger.u)
  if call.need > free then return 0 end
  local slice
  if limit < SMALL_MAX then
    slice = math.floor(free / (2 * ledger.n))
  else
    slice = math.min(math.floor(limit / (2 * math.max(1, call.hosts))), math.floor(free / 2))
  end
  return math.min(free, math.max(call.need, math.min(call.want, slice)))
end

local function settle(call, now, ledger, row, policy)
  local floor, spent, base = bound(call, ledger, row, policy)
  set_least_max(call, now, ledger)
  local claimed = floor - row.mine
  if policy.claim then claimed = policy.claim(call, now, ledger, row, claimed) end
  -- Uses without a lease are in what the host holds; what it gives back beyond that is not.
  local extra = math.max(0, call.extra)
  floor, spent = floor + extra, spent + extra
  if base >= 0 then base = base + extra end
  ledger.o = ledger.o + (floor - spent) - (row.mine - row.was)
  -- What is given back is given back in the window that the host knows, and in no other.
  ledger.u = math.max(ledger.o, ledger.u + claimed + (base < 0 and call.extra or extra))
  if not row.is_known then ledger.n = ledger.n + 1 end
  local more = grant(call, ledger, policy.limit and policy.limit(call, now, ledger) or ledger.m)
  ledger.u, ledger.o = ledger.u + more, ledger.o + more
  row.high, row.low, row.mine, row.was, row.base = call.high, call.low, floor + more, spent, base
end

local function take(policy)
  return function(keys, args)
    local call, fault = read(args, policy)
    if not call then return redis.error_reply('ERR frs: ' .. fault) end
    local key, now = keys[1], now_ms()
    local learning = learning_ms(now, call.learn)
    if learning > 0 then call.need, call.want = 0, 0 end
    local ledger, row = load(key, call.host, policy.fields or FIELDS, policy.words)
    if ledger.e and now >= ledger.e then
      redis.call('DEL', key)
      ledger, row = new_ledger(), no_row()
    end
    if ledger.s then
      if policy.roll then policy.roll(call, now, ledger, row, key) end
    else
      local is_open = policy.open(call, now, ledger)
      if is_open == nil then return {NOTHING, learning} end
      if not is_open then return {ELSEWHERE, learning, now} end
    end
    if call.high < row.high or call.high == row.high and call.low < row.low then
      return {STALE, learning}
    end
    if row.is_known and call.high == row.high and call.low == row.low then
      -- Written again as it is: a WAIT behind it, of a new connection, means the row as well.
      redis.call('HSET', key, 's', ledger.found[1])
      return granted(call, now, ledger, row, policy, learning)
    end
    if policy.prepare then policy.prepare(call, ledger, row) end
    settle(call, now, ledger, row, policy)
    if policy.hold then policy.hold(call, now, ledger, row) end
    save(key, call.host, ledger, row, policy)
    return granted(call, now, ledger, row, policy, learning)
  end
end

-- A recall names them.
local function holders(keys)
  local now, found = now_ms(), {}
  local head = redis.call('HMGET', keys[1], 's', 'e', 'p', 'x')
  local words = head[3] and WINDOW or head[4] and LEASE or nil
  local s, ends_ms = tonumber(head[1] or '0'), tonumber(head[2] or now + 1)
  -- Of a sliding counter half of it is the window before.
  if head[3] then ends_ms = (s + ends_ms) / 2 end
  each_row(keys[1], words, function(host, row)
    local is_of_now = not row.s or row.s == s
    local is_held = is_of_now and row.mine > row.was and now < (row.until_ms or ends_ms)
    if is_held then found[#found + 1] = host end
  end)
  table.sort(found)
  return found
end

local function heartbeat(_, args)
  local now = now_ms()
  return {learning_ms(now, tonumber(args[1])), now}
end

local function epoch(keys, args)
  local known = tonumber(redis.call('GET', keys[1]) or '0')
  local asked = tonumber(args[1])
  if not known then return redis.error_reply('ERR frs: the epoch is no number') end
  if asked > known then redis.call('SET', keys[1], asked) end
  return math.max(known, asked)
end

local function secret(keys, args)
  redis.call('SET', keys[1], args[1], 'NX')
  return redis.call('GET', keys[1])
end

-- Whether the last version of this host is later than this one, or as late.
local function is_old(version, known)
  local function part(digits, from) return tonumber(string.sub(digits, from, from + 7), 16) end
  local high, low = part(version, 1), part(version, 9)
  local known_high, known_low = part(known, 1), part(known, 9)
  return high < known_high or high == known_high and low <= known_low
end

local KEPT, MOVED, OLD = 0, 1, 2

local function put(keys, args)
  local host, version, life, bytes = args[1], args[2], tonumber(args[3]), args[4]
  local takes_over = args[5] == '1'
  local found = redis.call('HMGET', keys[1], 'h', 'v')
  local is_own = found[1] == host
  if found[1] and not is_own and not takes_over then return MOVED end
  if is_own and is_old(version, found[2]) then return OLD end
  if takes_over and bytes == '' then
    redis.call('DEL', keys[1])
    return KEPT
  end
  redis.call('HSET', keys[1], 'h', host, 'v', version, 'b', bytes)
  if life > 0 then
    redis.call('PEXPIRE', keys[1], life)
  else
    redis.call('PERSIST', keys[1])
  end
  return KEPT
end

local function fetch(keys, args)
  local found = redis.call('HMGET', keys[1], 'h', 'v', 'b')
  if not found[3] then return {} end
  -- A question that comes late leaves what its host has put since as it is.
  if found[1] ~= args[1] or not is_old(args[2], found[2]) then
    redis.call('HSET', keys[1], 'h', args[1], 'v', args[2])
  end
  return {found[3]}
end

-- What was fetched is deleted, unless its host has put a later version.
local function drop(keys, args)
  local found = redis.call('HMGET', keys[1], 'h', 'v')
  if found[1] == args[1] and not is_old(args[2], found[2]) then redis.call('DEL', keys[1]) end
  return 0
end

local function register(name, callback, flags)
  redis.register_function{function_name = 'frs_1_' .. name, callback = callback, flags = flags}
end

register('interval', take(interval), {'allow-oom'})
register('calendar', take(calendar), {'allow-oom'})
register('total', take(total), {'allow-oom'})
register('sliding', take(sliding), {'allow-oom'})
register('token', take(token), {'allow-oom'})
register('sliding_counter', take(counter), {'allow-oom'})
register('holders', holders, {'no-writes', 'allow-oom'})
register('heartbeat', heartbeat, {'allow-oom'})
register('epoch', epoch, {'allow-oom'})
register('secret', secret, {'allow-oom'})
register('put', put, {'allow-oom'})
register('fetch', fetch, {'allow-oom'})
register('drop', drop, {'allow-oom'})
