-- SL.ACQUIRE: an exact log under several windows at once.
--
-- KEYS[1]  the limiter
-- ARGV[1]  quantity
-- ARGV[2]  limit of the first window, units
-- ARGV[3]  the first window, microseconds
-- ...      limit and window of each further one
-- ARGV[n]  now_us, microseconds since the epoch instead of TIME, in tests
-- State    sl:<us>:<units> ..., what was admitted and when, in microseconds since
--          the epoch, the oldest first, expiring when the longest window is empty
-- Reply    limited, limit, remaining, retry_after and reset_after in milliseconds,
--          rounded up, of the window that refuses for longest, else of the one
--          that has the least left; and which one refuses, from 0, or -1
--
-- Sums of a moment and a window may not fit a Lua number; times from now do.

if redis.replicate_commands then redis.replicate_commands() end -- Redis before 5

local now
if #ARGV % 2 == 0 then
  now = ARGV[#ARGV] + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1e6 + time[2]
end

local quantity = ARGV[1] + 0
local limit, window, used, longest = {}, {}, {}, 0
for i = 1, math.floor((#ARGV - 1) / 2) do
  limit[i], window[i], used[i] = ARGV[2 * i] + 0, ARGV[2 * i + 1] + 0, 0
  if window[i] > longest then longest = window[i] end
end

local log = ''
local state = redis.pcall('GET', KEYS[1])
if state then
  if type(state) == 'table' then return state end -- an error
  log = string.match(state, '^sl:(.*)$')
  if not log then return redis.error_reply('ERR value is not a state of SL.ACQUIRE') end
end

-- each calls a function with the moment and the units of each entry, and with
-- where it begins and the next one does.
local function each(visit)
  local from = 1
  while from <= #log do
    local _, last, at, units = string.find(log, '^(%d+):(%d+) ', from)
    at, units = tonumber(at or '', 10), tonumber(units or '', 10)
    if not (at and units) or at >= 2^53 or units >= 2^53 then return false end
    visit(at, units, from, last + 1)
    from = last + 1
  end
  return true
end

-- The log is kept from first on; its newest entry begins at newest.
local first, newest, newest_at, newest_units = 1, 1, 0, 0
local whole = each(function(at, units, from, after)
  for i = 1, #window do
    if at - now + window[i] > 0 then used[i] = used[i] + units end
  end
  if at - now + longest <= 0 then first = after end
  newest, newest_at, newest_units = from, at, units
end)
if not whole then return redis.error_reply('ERR value is not a state of SL.ACQUIRE') end

-- What must leave each window, and when it will have.
local rest, wait, limited = {}, {}, 0
for i = 1, #window do
  rest[i] = used[i] + quantity - limit[i]
  if rest[i] > 0 then limited = 1 end
end
if limited == 1 then
  each(function(at, units)
    for i = 1, #window do
      if rest[i] > 0 and at - now + window[i] > 0 then
        rest[i] = rest[i] - units
        if rest[i] <= 0 then wait[i] = at - now + window[i] end
      end
    end
  end)
end

local shown, violated = 1, -1
for i = 1, #window do
  if used[i] + quantity > limit[i] then
    if not wait[i] then wait[i] = math.huge end -- more than the limit
    if violated < 0 or wait[i] > wait[shown] then shown, violated = i, i - 1 end
  elseif violated < 0 and limit[i] - used[i] < limit[shown] - used[shown] then
    shown = i
  end
end

if limited == 0 and quantity > 0 then
  for i = 1, #window do used[i] = used[i] + quantity end
  shown = 1
  for i = 2, #window do
    if limit[i] - used[i] < limit[shown] - used[shown] then shown = i end
  end
  if newest_at >= now then -- the same moment, or the clock has stepped back
    log = string.sub(log, 1, newest - 1)
    quantity = quantity + newest_units
  else
    newest_at = now
  end
  local value = 'sl:' .. string.sub(log, first) .. string.format('%.0f:%.0f ', newest_at, quantity)
  local set = redis.pcall('SET', KEYS[1], value, 'PX', math.ceil((newest_at - now + longest) / 1e3))
  if set.err then return set end
end

local remaining, retry_after, reset_after = limit[shown] - used[shown], -1, 0
if remaining < 0 then remaining = 0 end
if limited == 1 and wait[shown] < math.huge then retry_after = math.ceil(wait[shown] / 1e3) end
if newest_at - now + window[shown] > 0 then reset_after = math.ceil((newest_at - now + window[shown]) / 1e3) end
return {limited, limit[shown], remaining, retry_after, reset_after, violated}
