-- wrk's side of a row: wrk ... -s load.lua URL -- ROW PREFIX KEY RECORDS SEED
--   ROW     read | write | transaction | query
--   PREFIX  what stands before /collections/...: /v1, /drf, /django, or nothing
-- Prints one JSON object: requests, seconds, failed (answers of 300 and above, and requests without answer), p50_ms, p99_ms.

local text = string.rep("abcdefghij klmnopqrs", 10)
local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

local row, prefix, records, seed, made, headers

local function value(n)
  return string.format('{"status":"open","owner":"owner-%03d","amount":%d,"body":"%s"}', n % 1000, n, text)
end

function init(args)
  row, prefix, records, seed, made = args[1], args[2], tonumber(args[4]), args[5], 0
  if prefix == "-" then prefix = "" end
  math.randomseed(tonumber(seed) * 100 + number)
  headers = { ["Content-Type"] = "application/json" }
  if args[3] ~= "-" then headers["Authorization"] = "Bearer " .. args[3] end
end

function request()
  made = made + 1
  if row == "read" then
    local path = string.format("%s/collections/items/%08d", prefix, math.random(0, records - 1))
    return wrk.format("GET", path, headers)
  elseif row == "write" then
    return wrk.format("POST", prefix .. "/collections/written", headers, value(made))
  elseif row == "query" then
    local body = '{"collection":"items","where":[{"field":"owner","eq":"owner-%03d"}],"orderBy":[],"limit":20}'
    return wrk.format("POST", prefix .. "/query", headers, string.format(body, math.random(0, 999)))
  end
  local operations = {}
  for n = 1, 100 do
    local id = string.format("%s-%d-%d-%d", seed, number, made, n)
    operations[n] = string.format('{"collection":"many","id":"%s","value":%s}', id, value(n))
  end
  local id = string.format("t-%s-%d-%d", seed, number, made)
  local body = string.format('{"transactionId":"%s","operations":[%s]}', id, table.concat(operations, ","))
  return wrk.format("POST", prefix .. "/transactions", headers, body)
end

function done(summary, latency, requests)
  local wrong = summary.errors
  local failed = wrong.status + wrong.connect + wrong.read + wrong.write + wrong.timeout
  print(string.format(
    '{"requests":%d,"seconds":%f,"failed":%d,"p50_ms":%f,"p99_ms":%f}',
    summary.requests, summary.duration / 1e6, failed,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000
  ))
end
