-- Many runs of one script, which stands in the place of the dots, in one: every
-- key with as many arguments as the others.
--
-- KEYS  the limiters
-- ARGV  the arguments for the first, for the second, ...; all get the same now_us
-- Reply the replies, in order; one may be an error

local keys, argv = KEYS, ARGV

local function run(KEYS, ARGV)
...
end

if redis.replicate_commands then redis.replicate_commands() end -- Redis before 5

local time = redis.call('TIME')
local count = #argv / #keys
local key, arguments, replies = {}, {}, {}
arguments[count + 1] = time[1] * 1e6 + time[2]
for i = 1, #keys do
  key[1] = keys[i]
  for j = 1, count do arguments[j] = argv[(i - 1) * count + j] end
  replies[i] = run(key, arguments)
end
return replies
