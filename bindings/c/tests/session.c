/* A session with a server, and every code that a session can return. Arguments: the data directory,
 * and a folder without a server. The map is that of tests/it/library/c.rs. */
#include "check.h"

static frs *limits;

static frs_result update(const char *biz, const char *key)
{
    frs_item item = FRS_ITEM(biz, key);
    frs_result result = FRS_RESULT;
    int code = frs_update(limits, &item, &result);
    SAME(result.code, code);
    SAME(result.size, sizeof result);
    return result;
}

/* Each figure of a verdict, before and after its limit. */
static void verdicts(void)
{
    frs_result result = update("three", "alice");
    SAME(result.code, FRS_OK);
    SAME(result.limited, 0);
    SAME(result.limit, 1);
    SAME(result.used, 1);
    SAME(result.max, 3);
    SAME(result.remaining, 2);
    CHECK(result.reset_ms > 0 && result.reset_ms <= 3600 * 1000);
    SAME(result.retry_ms, -1);
    SAME(result.weight, -1);
    SAME(result.list, FRS_LIST_NONE);
    SAME(result.action[0], 0);

    frs_item item = FRS_ITEM("three", "alice");
    item.count = 3;
    frs_result asked = FRS_RESULT;
    SAME(frs_query(limits, &item, &asked), FRS_OK);
    SAME(asked.limited, 1);
    SAME(asked.used, 1);
    CHECK(asked.retry_ms > 0);
    item.count = 2;
    SAME(frs_update(limits, &item, &asked), FRS_OK);
    SAME(asked.used, 3);
    item.count = 1;
    SAME(frs_update(limits, &item, &asked), FRS_OK);
    SAME(asked.limited, 1);
    item.flags = FRS_FORCE;
    SAME(frs_update(limits, &item, &asked), FRS_OK);
    SAME(asked.used, 4);
    item.flags = 0;
    item.count = -4;
    SAME(frs_update(limits, &item, &asked), FRS_OK);
    SAME(asked.used, 0);
    item.count = 0;
    SAME(frs_update(limits, &item, &asked), FRS_OK);
    SAME(asked.used, 0);

    /* Texts by their length, and a business by its id. */
    item.biz = "2###";
    item.biz_bytes = 1;
    item.key = "alice and more";
    item.key_bytes = 5;
    item.count = 1;
    SAME(frs_update(limits, &item, &asked), FRS_OK);
    SAME(asked.used, 1);
    SAME(update("three", "alice").used, 2);
}

/* Bans, lists, advice, weights, modes. */
static void other_answers(void)
{
    SAME(update("banning", "b").limited, 0);
    frs_result banned = update("banning", "b");
    SAME(banned.limited, 1);
    SAME(banned.banned, 1);
    CHECK(banned.retry_ms > 3600 * 1000);
    frs_result allowed = update("listed", "root");
    SAME(allowed.list, FRS_LIST_ALLOW);
    SAME(allowed.limit, 0);
    SAME(allowed.used, -1);
    SAME(allowed.max, -1);
    SAME(allowed.remaining, -1);
    SAME(allowed.reset_ms, -1);
    frs_result denied = update("listed", "mallory");
    SAME(denied.list, FRS_LIST_DENY);
    SAME(denied.limited, 1);
    update("advised", "a");
    frs_result advised = update("advised", "a");
    SAME(advised.limited, 0);
    CHECK(strcmp(advised.action, "captcha") == 0);
    SAME(update("shadowed", "s").shadow, 0);
    SAME(update("shadowed", "s").shadow, 1);
    frs_item item = FRS_ITEM("paced", "p");
    item.flags = FRS_RATE;
    item.rate = 2;
    item.period_ns = 1000000000;
    item.burst = 7;
    frs_result paced = FRS_RESULT;
    SAME(frs_update(limits, &item, &paced), FRS_OK);
    SAME(paced.max, 7);
    SAME(paced.remaining, 6);
}

/* Notes a member: expects whether it is refused, and the number of members. */
static void note(const char *member, size_t bytes, int limited, int64_t used)
{
    frs_item item = FRS_ITEM("devices", "account");
    frs_result result = FRS_RESULT;
    item.member = member;
    item.member_bytes = bytes;
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.limited, limited);
    SAME(result.used, used);
}

static void members(void)
{
    note("phone", FRS_TEXT, 0, 1);
    note("phone and more", 5, 0, 1);
    note("laptop", FRS_TEXT, 0, 2);
    note("tablet", FRS_TEXT, 1, 2);
    note("phone", FRS_TEXT, 0, 2);
    frs_item item = FRS_ITEM("devices", "account");
    frs_result result = FRS_RESULT;
    SAME(frs_update(limits, &item, &result), FRS_BAD_MEMBER);
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(result.remaining, 0);
    item.member = "";
    SAME(frs_query(limits, &item, &result), FRS_BAD_MEMBER);
    item.member = "phone";
    item.member_bytes = (size_t)-2;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    SAYS("member of frs_item");
    /* An item of the first frs.h ends before its member. */
    item.member_bytes = FRS_TEXT;
    item.size = offsetof(frs_item, member);
    SAME(frs_update(limits, &item, &result), FRS_BAD_MEMBER);
    item.size = sizeof item;
    item.count = -1;
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.used, 1);
    note("tablet", FRS_TEXT, 0, 2);
}

static void details(void)
{
    frs_limit figures[3] = { FRS_LIMIT, FRS_LIMIT, FRS_LIMIT };
    frs_item item = FRS_ITEM("two", "d");
    frs_result result = FRS_RESULT;
    item.flags = FRS_DETAIL;
    result.limits = figures;
    result.limits_room = 3;
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.limits_count, 2);
    SAME(figures[0].index, 1);
    SAME(figures[1].index, 2);
    SAME(figures[2].index, 0);
    CHECK(strcmp(figures[0].policy, "interval") == 0);
    CHECK(strcmp(figures[1].policy, "total") == 0);
    SAME(figures[0].max, 2);
    SAME(figures[1].max, 100);
    SAME(figures[1].used, 1);
    SAME(figures[1].reset_ms, -1);
    SAME(figures[0].size, sizeof(frs_limit));
    SAME(figures[1].size, sizeof(frs_limit));
    item.count = 2;
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(figures[0].limited, 1);
    CHECK(figures[0].retry_ms > 0);
    SAME(figures[1].limited, 0);

    /* Less room than there are limits, or no room. */
    frs_limit one[2] = { FRS_LIMIT, FRS_LIMIT };
    result.limits = one;
    result.limits_room = 1;
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(result.limits_count, 2);
    SAME(one[0].index, 1);
    SAME(one[1].index, 0);
    result.limits = NULL;
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(result.limits_count, 2);

    /* A limit in the layout of the first frs.h. */
    char first_version[2][80] = { { 0 } };
    size_t first_size = 80;
    for (int at = 0; at < 2; at++)
        memcpy(first_version[at], &first_size, sizeof first_size);
    result.limits = (frs_limit *)first_version;
    result.limits_room = 2;
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(((frs_limit *)first_version[1])->index, 2);
    SAME(((frs_limit *)first_version[0])->size, 80);
    result.limits_room = 1;

    one[0].size = 8;
    result.limits = one;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    SAYS("frs_limit: found the size 8");
}

/* Limits that a call brings, as text and as numbers. */
static void limits_of_calls(void)
{
    frs_item item = FRS_ITEM("planned", "p");
    frs_result result = FRS_RESULT;
    item.rates = "2/90s and more";
    item.rates_bytes = 5;
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.max, 2);
    SAME(result.remaining, 1);
    SAME(result.granted, -1);
    SAME(result.held, -1);
    SAME(result.repeated, 0);
    item.flags = FRS_MAX;
    item.max = 5;
    SAME(frs_update(limits, &item, &result), FRS_BAD_RATE);
    SAME(result.granted, -1);
    item.rates = NULL;
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.max, 5);
    SAME(result.used, 2);

    item.flags |= FRS_PARTIAL;
    item.count = 7;
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(result.granted, 3);
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.limited, 0);
    SAME(result.granted, 3);
    SAME(result.used, 5);
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.limited, 1);
    SAME(result.granted, 0);
    item.count = 0;
    SAME(frs_update(limits, &item, &result), FRS_BAD_COUNT);

    frs_item paced = FRS_ITEM("paced", "text");
    paced.rates = "2/s";
    paced.burst = 7;
    SAME(frs_query(limits, &paced, &result), FRS_OK);
    SAME(result.max, 2);
    paced.flags = FRS_BURST;
    SAME(frs_query(limits, &paced, &result), FRS_OK);
    SAME(result.max, 7);
    paced.flags = FRS_RATE;
    paced.rate = paced.period_ns = 1;
    SAME(frs_query(limits, &paced, &result), FRS_BAD_RATE);
    paced.flags = FRS_BURST;
    paced.rates = NULL;
    SAME(frs_query(limits, &paced, &result), FRS_BAD_RATE);
}

/* Retries that charge once, alone and in an atomic batch. */
static void retries(void)
{
    frs_item item = FRS_ITEM("tokens", "retries");
    frs_result result = FRS_RESULT;
    item.once = "b7c1";
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.used, 1);
    SAME(result.repeated, 0);
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.used, 1);
    SAME(result.repeated, 1);
    item.once_bytes = 2;
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.used, 2);
    SAME(result.repeated, 0);
    item.once_bytes = 0;
    SAME(frs_update(limits, &item, &result), FRS_BAD_ONCE);
    item.once_bytes = (size_t)-2;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    SAYS("once of frs_item");

    frs_item items[2] = { FRS_ITEM("tokens", "retries"), FRS_ITEM("tokens", "other") };
    frs_result results[2] = { FRS_RESULT, FRS_RESULT };
    frs_batch_options options = FRS_BATCH_OPTIONS;
    int refused = 7;
    SAME(frs_batch_with(limits, items, results, 2, NULL, &refused), FRS_OK);
    SAME(results[0].used, 3);
    options.flags = FRS_ATOMIC;
    options.once = "order-1";
    for (int again = 0; again < 2; again++) {
        SAME(frs_batch_with(limits, items, results, 2, &options, &refused), FRS_OK);
        SAME(refused, 0);
        SAME(results[0].used, 4);
        SAME(results[1].used, 2);
        SAME(results[0].repeated, again);
        SAME(results[1].repeated, again);
    }
    items[1].once = "b7c2";
    options.once = NULL;
    SAME(frs_batch_with(limits, items, results, 2, &options, &refused), FRS_OK);
    SAME(results[1].code, FRS_BAD_ONCE);
    items[1].once = NULL;
    options.flags = 0;
    options.once = "order-2";
    SAME(frs_batch_with(limits, items, results, 2, &options, &refused), FRS_ARGUMENT);
    SAYS("without FRS_ATOMIC");
    options.flags = 8;
    SAME(frs_batch_with(limits, items, results, 2, &options, &refused), FRS_ARGUMENT);
    SAYS("flags of frs_batch_options");
    options.flags = FRS_ATOMIC;
    options.reserved = 1;
    SAME(frs_batch_with(limits, items, results, 2, &options, &refused), FRS_ARGUMENT);
    options.size = 8;
    SAME(frs_batch_with(limits, items, results, 2, &options, &refused), FRS_ARGUMENT);
    SAYS("frs_batch_options: found the size 8");
    SAME(update("tokens", "other").used, 3);
}

/* Sets what a hold holds: expects what is used and held. */
static frs_result hold(const char *biz, const char *id, int64_t count, uint32_t flags)
{
    frs_item item = FRS_ITEM(biz, "holder");
    frs_result result = FRS_RESULT;
    item.hold = id;
    item.count = count;
    item.flags = flags | FRS_TTL;
    item.ttl_ms = 60 * 1000;
    frs_update(limits, &item, &result);
    return result;
}

static void holds(void)
{
    /* Reserved, more, repeated, settled twice, settled without a hold, cancelled. */
    frs_result result = hold("tokens", "req-1", 5, 0);
    SAME(result.code, FRS_OK);
    SAME(result.used, 5);
    SAME(result.held, 5);
    SAME(hold("tokens", "req-1", 8, 0).used, 8);
    SAME(hold("tokens", "req-1", 8, 0).repeated, 1);
    SAME(hold("tokens", "req-2", 2, 0).held, 10);
    SAME(hold("tokens", "req-3", 1, 0).limited, 1);
    result = hold("tokens", "req-1", 3, FRS_SETTLE);
    SAME(result.used, 5);
    SAME(result.held, 2);
    SAME(result.unknown_hold, 0);
    SAME(hold("tokens", "req-1", 3, FRS_SETTLE).repeated, 1);
    SAME(hold("tokens", "req-2", 0, FRS_SETTLE).used, 3);
    result = hold("tokens", "req-9", 1, FRS_SETTLE);
    SAME(result.unknown_hold, 1);
    SAME(result.used, 4);

    /* At most two at once. */
    SAME(hold("places", "one", 1, 0).held, 1);
    SAME(hold("places", "two", 1, 0).remaining, 0);
    SAME(hold("places", "two", 1, 0).limited, 0);
    result = hold("places", "three", 1, 0);
    SAME(result.limited, 1);
    CHECK(result.retry_ms > 0 && result.retry_ms <= 60 * 1000);
    SAME(hold("places", "one", 0, 0).held, 1);
    SAME(hold("places", "three", 1, 0).limited, 0);
    SAME(hold("places", "", 1, 0).code, FRS_BAD_HOLD);
    SAME(hold("places", NULL, 1, 0).code, FRS_BAD_HOLD);
    SAME(hold("places", "one", 1, FRS_SETTLE).code, FRS_BAD_HOLD);
    SAME(hold("three", "one", 1, 0).code, FRS_BAD_HOLD);
}

static void windows_before(void)
{
    uint32_t windows[5] = { 9, 9, 9, 9, 9 };
    frs_limit figures[2] = { FRS_LIMIT, FRS_LIMIT };
    frs_item item = FRS_ITEM("before", "h");
    frs_result result = FRS_RESULT;
    item.flags = FRS_DETAIL;
    result.limits = figures;
    result.limits_room = 2;
    figures[0].history = windows;
    figures[0].history_room = 2;
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(figures[0].history_count, 3);
    SAME(windows[0], 0);
    SAME(windows[1], 7);
    SAME(windows[2], 9);
    SAME(figures[1].history_count, FRS_NO_HISTORY);
    figures[0].history_room = 5;
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(windows[2], 4);
    SAME(windows[3], 9);
    figures[0].history = NULL;
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(figures[0].history_count, 3);
    /* A key without uses. */
    item.key = "nobody";
    SAME(frs_query(limits, &item, &result), FRS_OK);
    SAME(figures[0].history_count, 0);
}

static void errors_of_items(void)
{
    static char longest[2000];
    memset(longest, 'k', sizeof longest - 1);
    SAME(update("nope", "k").code, FRS_UNKNOWN_BIZ);
    SAYS("unknown-biz");
    SAME(update("", "k").code, FRS_UNKNOWN_BIZ);
    SAME(update("th\377ree", "k").code, FRS_UNKNOWN_BIZ);
    SAME(update("three", "").code, FRS_BAD_KEY);
    SAME(update("three", longest).code, FRS_BAD_KEY);
    SAME(update("three", "\377\376").code, FRS_BAD_KEY);
    frs_item item = FRS_ITEM("three", "k");
    frs_result result = FRS_RESULT;
    item.count = 1LL << 40;
    SAME(frs_update(limits, &item, &result), FRS_BAD_COUNT);
    SAME(result.code, FRS_BAD_COUNT);
    item.count = 1;
    item.flags = FRS_RATE;
    item.rate = item.period_ns = item.burst = 1;
    SAME(frs_update(limits, &item, &result), FRS_BAD_RATE);
    SAME(update("three", "k").used, 1);
}

static void batches(void)
{
    enum { ITEMS = 4 };
    frs_item items[ITEMS] = { FRS_ITEM("three", "x"), FRS_ITEM("nope", "x"),
                              FRS_ITEM("three", "x"), FRS_ITEM("plenty", "x") };
    frs_result results[ITEMS] = { FRS_RESULT, FRS_RESULT, FRS_RESULT, FRS_RESULT };
    int refused = 7;
    SAME(frs_batch(limits, items, results, ITEMS, 0, &refused), FRS_OK);
    SAME(refused, 0);
    SAME(results[0].used, 1);
    SAME(results[1].code, FRS_UNKNOWN_BIZ);
    SAME(results[2].used, 2);
    SAME(results[3].used, 1);
    SAME(frs_batch(limits, items, results, ITEMS, FRS_QUERY, NULL), FRS_OK);
    SAME(results[2].used, 2);
    SAME(frs_batch(limits, items, results, ITEMS, FRS_ATOMIC, &refused), FRS_OK);
    SAME(refused, 1);
    items[1] = items[3];
    SAME(frs_batch(limits, items, results, ITEMS, FRS_ATOMIC, &refused), FRS_OK);
    SAME(refused, 1);
    SAME(results[2].limited, 1);
    items[2] = items[3];
    SAME(frs_batch(limits, items, results, ITEMS, FRS_ATOMIC | FRS_TRY, &refused), FRS_OK);
    SAME(refused, 0);
    SAME(results[0].used, 3);
    SAME(results[3].used, 4);
    SAME(frs_batch(limits, NULL, NULL, 0, 0, &refused), FRS_OK);

    /* A failed batch leaves no result that looks like a pass. */
    SAME(frs_batch(limits, items, results, ITEMS, 8, &refused), FRS_ARGUMENT);
    SAYS("found 0x8");
    enum { MANY = 1025 };
    frs_item *many = calloc(MANY, sizeof *many);
    frs_result *told = calloc(MANY, sizeof *told);
    for (int i = 0; i < MANY; i++) {
        many[i] = items[3];
        told[i].size = sizeof *told;
    }
    SAME(frs_batch(limits, many, told, MANY, 0, NULL), FRS_TOO_MANY);
    SAYS("1025 items: srv.xml allows 1024");
    SAME(told[0].code, FRS_TOO_MANY);
    SAME(told[MANY - 1].code, FRS_TOO_MANY);
    SAME(frs_batch(limits, many, told, MANY - 1, 0, NULL), FRS_OK);
    SAME(told[MANY - 2].used, 4 + MANY - 1);
    many[3].size = sizeof *many + 8;
    SAME(frs_batch(limits, many, told, MANY - 1, 0, NULL), FRS_ARGUMENT);
    SAYS("in one array");
    SAME(update("plenty", "x").used, 4 + MANY);
    free(many);
    free(told);
}

static void bad_arguments(void)
{
    frs_item item = FRS_ITEM("plenty", "bad");
    frs_result result = FRS_RESULT;
    frs *none = (frs *)&item;
    SAME(frs_open(NULL, &none), FRS_ARGUMENT);
    CHECK(none == NULL);
    SAME(frs_open("data", NULL), FRS_ARGUMENT);
    frs_options options = FRS_OPTIONS;
    SAME(frs_open_with("data", &options, NULL), FRS_ARGUMENT);
    SAYS("frs_open_with");
    options.places = 0;
    SAME(frs_open_with("data", &options, &none), FRS_ARGUMENT);
    options.places = 9;
    SAME(frs_open_with("data", &options, &none), FRS_ARGUMENT);
    SAYS("places of frs_options: found 9, expected 1 to 8");
    options.places = 8;
    options.reserved = 1;
    SAME(frs_open_with("data", &options, &none), FRS_ARGUMENT);
    options.size = 8;
    SAME(frs_open_with("data", &options, &none), FRS_ARGUMENT);
    SAYS("frs_options: found the size 8");
    CHECK(none == NULL);
    SAME(frs_update(NULL, &item, &result), FRS_ARGUMENT);
    SAYS("what frs_open returned");
    SAME(result.code, FRS_ARGUMENT);
    SAME(frs_update(limits, NULL, &result), FRS_ARGUMENT);
    SAME(frs_update(limits, &item, NULL), FRS_ARGUMENT);
    SAME(frs_batch(limits, NULL, &result, 1, 0, NULL), FRS_ARGUMENT);
    SAME(frs_batch(limits, &item, NULL, 1, 0, NULL), FRS_ARGUMENT);
    SAME(frs_batch(limits, &item, &result, (size_t)-1 / 80, 0, NULL), FRS_ARGUMENT);
    SAME(frs_update(limits, (frs_item *)((char *)&item + 1), &result), FRS_ARGUMENT);
    SAYS("misaligned");
    item.size = 0;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    SAYS("frs_item: found the size 0, expected sizeof(frs_item), at least 80");
    item.size = sizeof item;
    result.size = 16;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    SAYS("frs_result: found the size 16");
    result.size = sizeof result;
    item.flags = 256;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    SAYS("flags of frs_item: found 0x100");
    item.flags = 0;
    item.reserved = 1;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    item.reserved = 0;
    item.key = NULL;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    SAYS("key of frs_item");
    item.key = "bad";
    item.key_bytes = (size_t)-2;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    frs_close(NULL);
    SAME(update("plenty", "bad").used, 1);
}

/* Structures of earlier versions of frs.h: nothing behind them is read or written. */
static void older_structures(void)
{
    frs_item item = FRS_ITEM("plenty", "older");
    frs_result result = FRS_RESULT;
    item.size = offsetof(frs_item, rates);
    item.rates = item.once = item.hold = "not there";
    item.rates_bytes = (size_t)-2;
    result.size = offsetof(frs_result, granted);
    result.granted = result.held = 77;
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.used, 1);
    SAME(result.size, offsetof(frs_result, granted));
    SAME(result.granted, 77);
    SAME(result.held, 77);
    SAME(frs_batch(limits, &item, &result, 1, 0, NULL), FRS_OK);
    SAME(result.used, 2);
    SAME(result.granted, 77);
    item.flags = FRS_PARTIAL;
    SAME(frs_update(limits, &item, &result), FRS_ARGUMENT);
    SAYS("flags of frs_item: found 0x20, expected flags of 0x7");
    SAME(result.granted, 77);
    /* A size between two versions has no field of the later one. */
    item.flags = 0;
    item.size = offsetof(frs_item, ttl_ms);
    result.size = offsetof(frs_result, repeated);
    SAME(frs_update(limits, &item, &result), FRS_OK);
    SAME(result.used, 3);
    SAME(result.granted, 0);
}

/* Structures of a later frs.h. */
static void newer_structures(void)
{
    struct { frs_item item; uint64_t member; } item = { FRS_ITEM("plenty", "newer"), 0 };
    struct { frs_result result; uint64_t news; } result = { FRS_RESULT, 77 };
    item.item.size = sizeof item;
    result.result.size = sizeof result;
    SAME(frs_update(limits, &item.item, &result.result), FRS_OK);
    SAME(result.result.used, 1);
    SAME(result.news, 0);
    SAME(result.result.size, sizeof result);
    item.member = 1;
    SAME(frs_update(limits, &item.item, &result.result), FRS_ARGUMENT);
    SAYS("a field of a newer frs.h");
    /* The next result is of the known size: the bytes after it are not touched. */
    struct { frs_result result; uint64_t other; } next = { FRS_RESULT, 77 };
    item.member = 0;
    SAME(frs_update(limits, &item.item, &next.result), FRS_OK);
    SAME(next.other, 77);
}

static void words(void)
{
    static const int codes[] = { 0,   -1,  -2,  -3,  -4,  -5,  -6,  -7,  -8,  -9,  -10,
                                 -11, -20, -21, -22, -23, -24, -40, -41, -60, -98, -99 };
    const char *unknown = frs_strerror(12345);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        const char *meaning = frs_strerror(codes[i]);
        CHECK(meaning && *meaning && strcmp(meaning, unknown) != 0);
    }
    CHECK(strstr(frs_strerror(FRS_BAD_COUNT), "bad-count"));
    CHECK(strstr(frs_strerror(FRS_PANIC), "fault of the library"));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    SAME(frs_abi(), FRS_ABI);
    CHECK(*frs_message() == 0);
    SAME(frs_open(argv[2], &limits), FRS_NO_SERVER);
    CHECK(limits == NULL);
    SAYS("no server runs on the data directory");
    SAYS("runtime.mmap");
    SAME(frs_open_with(argv[1], NULL, &limits), FRS_OK);
    frs_close(limits);
    SAME(frs_open(argv[1], &limits), FRS_OK);
    verdicts();
    other_answers();
    members();
    limits_of_calls();
    retries();
    holds();
    details();
    windows_before();
    errors_of_items();
    batches();
    bad_arguments();
    older_structures();
    newer_structures();
    words();
    frs_close(limits);
    puts("ok");
    return 0;
}
