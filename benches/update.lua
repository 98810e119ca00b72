-- What wrk sends: POST /update with one or more items on random keys, pipelined or not.
-- wrk … -s update.lua URL -- DEPTH ITEMS SEED
-- The last line of the output is for the driver: RESULT requests µs p50 p99 socket-errors bad-statuses

local KEYS = 100000
local BATCHES = 8192
local batches = {}
local last = 0

local function item()
   return string.format('<item biz="1" key="k%06d"/>', math.random(0, KEYS - 1))
end

local function update(items)
   local parts = {}
   for i = 1, items do
      parts[i] = item()
   end
   local body = "<request>" .. table.concat(parts) .. "</request>"
   return "POST /update HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/xml\r\n"
      .. "Content-Length: " .. #body .. "\r\n\r\n" .. body
end

function init(args)
   local depth, items = tonumber(args[1]), tonumber(args[2])
   math.randomseed(tonumber(args[3]))
   -- Made beforehand, so that the client's work while measuring is small and the same for all.
   for i = 1, (depth * items == 1) and KEYS or BATCHES do
      local parts = {}
      for j = 1, depth do
         parts[j] = update(items)
      end
      batches[i] = table.concat(parts)
   end
end

function request()
   last = last % #batches + 1
   return batches[last]
end

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format("RESULT %d %d %d %d %d %d\n", summary.requests, summary.duration,
      latency:percentile(50), latency:percentile(99),
      errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
