-- `http-request lua.frs BIZ` charges one use of a biz to the address that HAProxy sees.
--
-- It sets txn.frs_status, the status of frs's answer (200: pass, 429: refuse, any other: no
-- verdict), and txn.frs_retry, its Retry-After, if it has one. It sends nothing of the client's
-- request.

-- `listen frs` in haproxy.cfg.
local through = "127.0.0.1:7610"

core.register_action("frs", { "http-req" }, function(txn, biz)
    local answer = core.httpclient():get({
        url = "http://" .. through .. "/authz/" .. biz .. "/",
        headers = { ["FRS-Key"] = { txn.f:src() } },
        -- Longer than the timeouts of `listen frs`, so that those expire first.
        timeout = 3000,
    })
    txn:set_var("txn.frs_status", answer.status)
    local retry_after = answer.headers and answer.headers["retry-after"]
    if retry_after then
        txn:set_var("txn.frs_retry", retry_after[0])
    end
end, 1)
