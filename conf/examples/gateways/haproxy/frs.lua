-- `http-request lua.frs BIZ` charges one use of a biz to the address that HAProxy sees.
--
-- It sets txn.frs_status, the status of frs's answer (200: pass, 429: refuse, any other: no
-- verdict), and of the fields that the answer has, Retry-After as txn.frs_retry, RateLimit as
-- txn.frs_limit and RateLimit-Policy as txn.frs_policy. It sends nothing of the client's request.

-- `listen frs` in haproxy.cfg.
local through = "127.0.0.1:7610"
local fields = {
    ["retry-after"] = "txn.frs_retry",
    ["ratelimit"] = "txn.frs_limit",
    ["ratelimit-policy"] = "txn.frs_policy",
}

core.register_action("frs", { "http-req" }, function(txn, biz)
    local answer = core.httpclient():get({
        url = "http://" .. through .. "/authz/" .. biz .. "/",
        headers = { ["FRS-Key"] = { txn.f:src() } },
        -- Longer than the timeouts of `listen frs`, so that those expire first.
        timeout = 3000,
    })
    txn:set_var("txn.frs_status", answer.status)
    for field, variable in pairs(fields) do
        local values = answer.headers and answer.headers[field]
        if values then
            txn:set_var(variable, values[0])
        end
    end
end, 1)
