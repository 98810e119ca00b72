#!lua name=frs_1
-- The ledger: how much of each key's quota is granted, and to whom. One library for Redis 7.0 or
-- newer and Valkey. A ledger is one hash; each function touches one key, takes the time from the
-- server, and may run when memory is short (`allow-oom`).
--
-- Invariant: a message is absolute and has a seq, so it may come late, twice or never. Grants that
-- are out never exceed the maximum, except by uses that hosts have made without a grant (EXTRA), or
-- claim after the server has lost writes.
--
-- The names of the library and of the functions carry its version, so two versions live side by
-- side. A version with another format of the hash uses other names of keys.
--
-- FCALL frs_1_KIND 1 LEDGER HOST SEQ WIN FLOOR SPENT EXTRA NEED WANT MAX HOSTS LEARN SLOT, and
--   KIND = interval         INTERVAL
--          calendar         START END NEXT_END
--          total
--          sliding          INTERVAL BACK
--          token            RATE PERIOD
--          sliding_counter  INTERVAL BEFORE
--   HOST and SEQ are u64 as 16 lower-case hex digits. The others are decimal: times in ms, WIN = 0
--   for "I do not know any more", amounts of at most 2^50, MAX the maximum (token: the burst),
--   LEARN how many ms a new master learns before it grants. With WIN = 0, FLOOR is the first SEQ of
--   the host about this key without an answer: grants from there on cannot have been spent.
--   BEFORE: uses of HOST in the window before WIN. BACK: uses that HOST has taken out of its log
--   because other hosts have returned them.
--   SLOT is a key in the ledger's slot that records since when this master has the slot. It is lost
--   with the slot's ledgers. Empty: the slot is moving to this server, which does not own it yet.
--   The answer is an array of integers. The first one is the result:
--     0 LEARNING                                    nothing: no window, and nothing to grant
--     1 LEARNING                                    stale: a later number of this host is known
--     2 LEARNING WIN BASE ALLOWANCE POOL TURN OTHERS OVER MAX HOLDERS LEFT    sliding: and BACK
--     3 LEARNING NOW                                elsewhere: NOW is in neither calendar window
--   LEARNING: ms for which the server grants nothing; BASE: -1 for none; TURN: ms, -1 for never;
--   MAX: the least maximum seen, which decides; HOLDERS: rows of the hash; LEFT: returned uses
--   (EXTRA < 0) that no host has reported as used; BACK: uses that HOST is to take out of its log.
-- FCALL frs_1_holders 1 LEDGER        the hosts with unspent uses, each as 16 hex digits
-- FCALL frs_1_heartbeat 1 SLOT LEARN CLAIMS
--   LEARNING NOW SINCE: reports since when this master has SLOT. CLAIMS = 1: the host has more to
--   claim. A server that learns in SLOT then goes on to learn, in all slots, up to LEARN_MAX_MS
--   after SINCE. With 0 in place of 1 SLOT, for a server without slots, LEARNING and SINCE are 0.
-- FCALL frs_1_slots 1 SLOT SLOT…      begins to learn in each of these slots that is new
-- FCALL frs_1_epoch 1 KEY EPOCH       the reset epoch: the larger of the stored one and EPOCH
-- FCALL frs_1_secret 1 KEY CHECK      the check of the secret: the stored one, or else CHECK
-- FCALL frs_1_start 1 KEY NEXT KNOWN TOLD BEFORE MISSING LIFE
--   1: the host's directory is the newest of its copies, and NEXT is stored for LIFE ms as the last
--   start of its server; 0: it is an older copy, and nothing has changed. NEXT, KNOWN and BEFORE
--   are starts, as 16 lower-case hex digits: the one to store, the one that the host takes for
--   stored, and the one before. NEXT = KNOWN: report number TOLD. MISSING = 1: 1 if none is stored.
--
-- Records of keys with limits of one machine alone, kept for the machine that takes a key over:
-- FCALL frs_1_put 1 RECORD HOST VERSION LIFE BYTES
--   stores BYTES for LIFE ms (0: forever). 0: stored; 1: another host has taken the record over
--   since; 2: a later VERSION of this host is stored. With 1 and 2 nothing has changed.
-- FCALL frs_1_fetch 1 RECORD HOST VERSION
--   an array: BYTES, or nothing. HOST owns the record from now on.
--   VERSION is a u64 as 16 lower-case hex digits. Versions are compared within a host only. Times
--   are never compared.
-- The hash of a record: h the host that has it, v the last version of that host, b the bytes.
--
-- The hash:
--   s   start of the window          u   granted in all (token: taken out of the full bucket)
--   e   when all is forgotten        o   of that maybe unspent
--   n   rows                         m   the least max seen lately, mt when
--   p   sliding_counter: u of the window before this one
--   x   sliding, token: nothing ends before     t, f   token: filled up to t, and parts of a token
--   h<HOST> = seq u64, allowance u64, spent u64, base + 1 or 0 u64, big-endian, and
--             sliding, token: ends of the lease and of the row; sliding: BACK; sliding_counter:
--             start of the window, what of the host is in p

local LOOK_MS = 100              -- the interval between two looks at the server's identity
local LEARN_MAX_MS = 10000       -- the longest time that the server learns while hosts claim
local LEAST_MAX_MS = 10000       -- how long the least max decides
local BACK_MS = 1000             -- a clock this far before a window's start was set back
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

local id, at
-- By slot: the value of its key, and since when this master has the slot.
local says, begun = {}, {}
-- An identity that changes when the server becomes a master, or starts again.
local function identity(now)
  if not at or now < at or now - at >= LOOK_MS then
    local seen = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '0'
    if seen ~= id then id, says, begun = seen, {}, {} end
    at = now
  end
  return id
end

-- Since when this master has a slot. Writes the slot's key anew if the server has become master,
-- was emptied, or has got the slot. Returns nil if the slot is moving to another server, and its
-- key is already there.
local function since(now, slot)
  local known, own = redis.pcall('GET', slot), identity(now)
  if known and known == says[slot] and begun[slot] <= now then return begun[slot] end
  if type(known) == 'table' then
    if not string.find(known.err, 'non local key', 1, true) then error(known.err) end
    return nil
  end
  local of, born = string.match(known or '', '^(%x+) (%d+)$')
  born = tonumber(born)
  if of ~= own or born > now then
    known, born = string.format('%s %d', own, now), now
    redis.call('SET', slot, known)
  end
  says[slot], begun[slot] = known, born
  return born
end

local held_until = 0
-- Returns for how many ms the server grants nothing in a slot, and since when it has the slot. It
-- may have lost grants of the previous master, and lets the holders claim them first.
local function learning_ms(now, learn, slot)
  if slot == '' then return 0, 0 end
  local born = since(now, slot)
  if held_until > now + LEARN_MAX_MS then held_until = 0 end
  return math.max(0, born and born + learn - now or 0, held_until - now), born or 0
end

-- Returns (whole, parts) of (a * b + rest) / by without rounding, for a < 2^56 and
-- b, rest <= by <= 2^44: long division, eight bits of `a` at a time.
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
  local expected = 12 + #policy.own
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
    if i == 12 then
      call.slot = args[i]
    elseif value then
      call[NAMES[i - 2] or policy.own[i - 12]] = value
    else
      return nil, 'expected a number, found "' .. args[i] .. '"'
    end
  end
  call.floor = math.max(call.floor, call.spent)
  return call
end

local function no_row() return {high = 0, low = 0, mine = 0, was = 0, base = -1} end

local function clear(row)
  for field in pairs(row) do row[field] = nil end
  for field, value in pairs(no_row()) do row[field] = value end
end

-- Further words in the rows of some policies.
local LEASE = {'until_ms', 'ends_ms'}
local SHARE = {'until_ms', 'ends_ms', 'back'}
local WINDOW = {'s', 'of_p'}
local WORDS = {[2] = '>I8I8', [3] = '>I8I8I8'}

local function unpack_row(packed, words)
  local row = no_row()
  row.is_known = true
  row.high, row.low, row.mine, row.was, row.base = struct.unpack(ROW, packed)
  row.base = row.base - 1
  if words then
    local read = {struct.unpack(WORDS[#words], packed, 33)}
    for i, word in ipairs(words) do row[word] = read[i] end
  end
  return row
end

local function pack_row(row, words)
  local packed = struct.pack(ROW, row.high, row.low, row.mine, row.was, row.base + 1)
  if not words then return packed end
  return packed .. struct.pack(WORDS[#words], row[words[1]], row[words[2]], row[words[3]])
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

-- The policies. Each has: `own`, its arguments; `open`, which sets start and end of the window of a
-- ledger without one (nil: nothing to do, false: the time is in neither calendar window);
-- `overlaps`, whether uses of another window may count in this one; `turn`, until when a grant
-- holds. Some have: `fields` and `words`, further fields of their hashes and words of their rows;
-- `roll`, which brings a ledger to the present time; `prepare`, which looks at a message first;
-- `limit`, the max; `claim`, the amount to add for a host's claim; `hold`, which renews the row;
-- `told`, the allowance in an answer once the server has learnt; `over`, the uses beyond the max
-- that an answer reports.

local interval = {own = {'interval'}}
function interval.open(call, now, ledger)
  local is_claim = call.win > 0 and now < call.win + call.interval
  if not is_claim and not asks(call) then return nil end
  -- A window that begins in the future was opened before the clock was set back. It counts in this
  -- one.
  ledger.s = is_claim and call.win <= now + BACK_MS and call.win or now
  ledger.e = ledger.s + call.interval
  return true
end
-- If the clock was set back before the start of a window, the window ends one interval from now.
function interval.roll(call, now, ledger)
  if now < ledger.s - BACK_MS then ledger.e = math.min(ledger.e, now + call.interval) end
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

-- Windows start at multiples of the interval. Grants of the previous window are weighed by the part
-- of that window that is still within an interval from now.
local counter = {own = {'interval', 'before'}, fields = COUNTER_FIELDS, words = WINDOW,
  overlaps = interval.overlaps}
function counter.turn(call, ledger) return ledger.s + call.interval end
function counter.open(call, now, ledger)
  local is_aligned = call.win > 0 and call.win % call.interval == 0
  local is_lately = is_aligned and now < call.win + 2 * call.interval
  if not is_lately and not asks(call) then return nil end
  local is_claim = is_lately and now < call.win + call.interval
    and call.win <= now + call.interval + BACK_MS
  ledger.s = is_claim and call.win or now - now % call.interval
  ledger.p, ledger.e = 0, ledger.s + 2 * call.interval
  return true
end
-- A row of the previous window counts in p. An older row counts nowhere, and is deleted. If the
-- clock was set back by more than a window, the next window begins, and all known grants count as
-- those of the previous one.
function counter.roll(call, now, ledger, row, key)
  if now < ledger.s - call.interval - BACK_MS then
    ledger.dead = {}
    each_row(key, WINDOW, function(host) ledger.dead[host] = true end)
    ledger.dead[call.host] = nil
    clear(row)
    ledger.s = now - now % call.interval + call.interval
    ledger.p, ledger.u, ledger.o, ledger.n = ledger.p + ledger.u, 0, 0, 0
    ledger.e = ledger.s + 2 * call.interval
  elseif now >= ledger.s + call.interval then
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
-- A host's report of the previous window counts if it is larger than the known amount.
function counter.prepare(call, ledger, row)
  local of_p = 0
  if call.win == ledger.s then
    of_p = call.before
  elseif call.win > 0 and call.win == ledger.s - call.interval then
    of_p = call.floor
  end
  row.of_p = row.of_p or 0
  ledger.p = ledger.p + math.max(0, of_p - row.of_p)
  row.of_p = math.max(of_p, row.of_p)
end
function counter.limit(call, now, ledger)
  local ahead = math.min(call.interval, ledger.s + call.interval - now)
  local whole, parts = divide(ledger.p, ahead, call.interval, 0)
  return ledger.m - whole - (parts > 0 and 1 or 0)
end

-- Visits all rows when one may have ended. `judge` may change a row, and returns when to look at it
-- again, or nil if it has ended.
local function sweep(now, ledger, row, key, host, words, judge)
  if now < ledger.x then return end
  ledger.dead, ledger.void, ledger.x = {}, {}, nil
  each_row(key, words, function(name, other)
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

-- Each host runs its own exact log under its share. The only window is named 1. A share lives for
-- its lease, during which the host admits, and one interval more, until its last uses leave the
-- log.
local sliding = {own = {'interval', 'back'}, fields = SHARE_FIELDS, words = SHARE,
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
  sweep(now, ledger, row, key, call.host, SHARE, function(other)
    if now < other.ends_ms then return other.ends_ms end
    ledger.u, ledger.o = ledger.u - other.mine, ledger.o - (other.mine - other.was)
  end)
end
-- Uses that a host returns beyond its own are in the logs of other hosts: some uses of each become
-- unspent again, and BACK tells that host how many. A host that has lost its log takes none out.
function sliding.prepare(call, ledger, row, key)
  local left = row.is_known and call.win > 0 and -call.extra or 0
  call.extra = math.max(0, call.extra)
  row.back = math.max(call.win > 0 and row.back or 0, call.back)
  if call.win > 0 then call.win = 1 end
  if left <= 0 then return end
  local names, rows = {}, {}
  each_row(key, SHARE, function(name, other)
    if name ~= call.host and not (ledger.dead and ledger.dead[name]) then
      names[#names + 1], rows[name] = name, other
    end
  end)
  -- The hosts with the latest messages come first: the others may be gone.
  table.sort(names, function(a, b)
    local a_ms, b_ms = rows[a].until_ms, rows[b].until_ms
    return a_ms > b_ms or a_ms == b_ms and a < b
  end)
  ledger.void = {}
  for _, name in ipairs(names) do
    local other = rows[name]
    local taken = math.min(left, other.was)
    if taken > 0 then
      other.was, other.back, ledger.void[name] = other.was - taken, other.back + taken, other
      ledger.o, left = ledger.o + taken, left - taken
    end
  end
  call.left = left
end
function sliding.hold(call, now, ledger, row)
  local until_ms = now + share_ms(call)
  local ends_ms = until_ms + call.interval
  renew(ledger, row, until_ms, ends_ms, ends_ms)
end
-- A share can be used repeatedly. So a share beyond the maximum, after a late claim or uses without
-- a lease, is not renewed.
function sliding.told(ledger, mine)
  return math.max(0, mine - math.max(0, ledger.u - ledger.m))
end
function sliding.turn(call, ledger, row) return row.until_ms end

-- u counts the tokens taken out of the full bucket, with unspent leases. They flow back, but u
-- never falls below the unspent tokens. So the tokens in the bucket and those out never exceed the
-- burst together. At a lease's end its unspent tokens count as spent, and the host no longer holds
-- them. The row stays until they have flowed back.
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
-- Tokens flow back up to each lease's end first. Only from there on may u fall below the unspent
-- tokens of that lease: its host may have spent them in its last ms.
function token.roll(call, now, ledger, row, key)
  local ended = {}
  sweep(now, ledger, row, key, call.host, LEASE, function(other, name)
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
  -- If the clock was set back far, the flow would stop for as long.
  if ledger.t - now >= fill_ms(call) then ledger.t = now end
  flow_back(call, ledger, now)
end
-- A host without a row can hold no more than a full bucket. A claim of an ended lease is taken out
-- once more, and never reduces u: the lost writes may have renewed the lease, or have taken tokens
-- back and granted them again.
function token.claim(call, now, ledger, row, claimed)
  if not row.is_known then return math.min(claimed, ledger.m) end
  if now >= row.until_ms then return math.max(0, claimed) end
  return claimed
end
-- Claimed tokens may have flowed back already. Only uses without a lease are certainly over.
function token.over(call, over) return math.min(over, math.max(0, call.extra)) end
function token.hold(call, now, ledger, row)
  local until_ms = now + fill_ms(call)
  renew(ledger, row, until_ms, until_ms + fill_ms(call), until_ms)
end

local function granted(call, now, ledger, row, policy, learning)
  local limit = policy.limit and policy.limit(call, now, ledger) or ledger.m
  local turn, mine = policy.turn(call, ledger, row), row.mine
  if policy.told and learning == 0 then mine = policy.told(ledger, mine) end
  local over = math.max(0, ledger.u - limit)
  if policy.over then over = policy.over(call, over) end
  return {GRANTED, learning, ledger.s, row.base, mine, limit - ledger.u,
    turn and math.max(0, turn - now) or -1, ledger.o - (row.mine - row.was),
    over, ledger.m, ledger.n, call.left or 0, row.back}
end

-- Returns the floor, spent and base of a message in this window.
local function bound(call, ledger, row, policy)
  if call.win == ledger.s then return call.floor, call.spent, -1 end
  if call.win == 0 then
    local known = row.mine
    if call.floor > 0 and row.high * 2 ^ 32 + row.low >= call.floor then
      known = math.max(0, row.base)
    end
    return known, known, known
  end
  if policy.overlaps(call, ledger) then return call.floor, call.floor, call.floor end
  return 0, 0, 0
end

local function set_least_max(call, now, ledger)
  if not ledger.m or call.max <= ledger.m or now - ledger.mt > LEAST_MAX_MS then
    ledger.m, ledger.mt = call.max, now
  end
end

-- Grants NEED whole or not at all, and more up to WANT within the slice of one host.
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
  -- Uses without a lease are added to the host's allowance. Returns beyond it are not.
  local extra = math.max(0, call.extra)
  floor, spent = floor + extra, spent + extra
  if base >= 0 then base = base + extra end
  ledger.o = ledger.o + (floor - spent) - (row.mine - row.was)
  -- Uses are returned only in the window that the host knows.
  local granted = ledger.u + claimed + extra
  local given_back = base < 0 and math.max(0, -call.extra) or 0
  ledger.u = math.max(ledger.o, granted - given_back)
  call.left = call.left or math.min(given_back, ledger.u - granted + given_back)
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
    local learning = learning_ms(now, call.learn, call.slot)
    local ledger, row = load(key, call.host, policy.fields or FIELDS, policy.words)
    -- While a slot moves here, only ledgers that have arrived are known.
    if call.slot == '' and not ledger.s then return {NOTHING, call.learn} end
    if learning > 0 then call.need, call.want = 0, 0 end
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
      -- Repeats a write without a change, so that a WAIT on a new connection covers the row, too.
      redis.call('HSET', key, 's', ledger.found[1])
      return granted(call, now, ledger, row, policy, learning)
    end
    if policy.prepare then policy.prepare(call, ledger, row, key) end
    settle(call, now, ledger, row, policy)
    if policy.hold then policy.hold(call, now, ledger, row) end
    save(key, call.host, ledger, row, policy)
    return granted(call, now, ledger, row, policy, learning)
  end
end

-- Returns the hosts that a recall names.
local function holders(keys)
  local now, found = now_ms(), {}
  local head = redis.call('HMGET', keys[1], 's', 'e', 'p', 'x', 't')
  local words = head[3] and WINDOW or head[4] and LEASE or nil
  local s, ends_ms = tonumber(head[1] or '0'), tonumber(head[2] or now + 1)
  -- The ledger of a sliding counter lives for two intervals. Its window is the first of them.
  if head[3] then ends_ms = (s + ends_ms) / 2 end
  each_row(keys[1], words, function(host, row)
    local is_of_now = not row.s or row.s == s
    -- A share outlives its lease, as do uses in it that other hosts have returned.
    local row_ends_ms = head[5] and row.until_ms or row.ends_ms or ends_ms
    local is_held = is_of_now and row.mine > row.was and now < row_ends_ms
    if is_held then found[#found + 1] = host end
  end)
  table.sort(found)
  return found
end

local function heartbeat(keys, args)
  local now, learn = now_ms(), tonumber(args[1])
  local learning, born = learning_ms(now, learn, keys[1] or '')
  if args[2] == '1' and learning > 0 and born > 0 then
    held_until = math.min(now + learn, born + LEARN_MAX_MS)
    learning = math.max(learning, held_until - now)
  end
  return {learning, now, born}
end

local function slots(keys, args)
  local now = now_ms()
  since(now, keys[1])
  for i = 1, #args do since(now, args[i]) end
  return 1 + #args
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

-- A stored start was in the host's directory first. So a directory that knows less than the store
-- is an older copy. A host that reports a start again has received the answer that it is stored.
local function start(keys, args)
  local next_start, known_start, told, before = args[1], args[2], tonumber(args[3]), args[4]
  local found = redis.call('GET', keys[1])
  local start, found_told = string.match(found or '', '^(%x+) (%d+)$')
  local is_again, may_be_missing = next_start == known_start, args[5] == '1'
  local is_newest = not found and may_be_missing
    or start == known_start and tonumber(found_told) <= told
    or start == before
    or start == next_start and not is_again and tonumber(found_told) == 0
  if not is_newest then return 0 end
  if is_again or start ~= next_start then
    local kept = string.format('%s %d', next_start, is_again and told or 0)
    redis.call('SET', keys[1], kept, 'PX', args[6])
  end
  return 1
end

-- Whether the stored version of this host is the same as this one or later.
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
  -- A late question does not change what its host has put since.
  if found[1] ~= args[1] or not is_old(args[2], found[2]) then
    redis.call('HSET', keys[1], 'h', args[1], 'v', args[2])
  end
  return {found[3]}
end

-- Deletes a fetched record, unless its host has put a later version.
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
register('slots', slots, {'allow-oom', 'allow-cross-slot-keys'})
register('epoch', epoch, {'allow-oom'})
register('secret', secret, {'allow-oom'})
register('start', start, {'allow-oom'})
register('put', put, {'allow-oom'})
register('fetch', fetch, {'allow-oom'})
register('drop', drop, {'allow-oom'})
