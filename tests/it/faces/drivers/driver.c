/* The face of programs in C: obeys the lines that tests/it/faces/driven.rs describes. */
#include <frs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 64
#define LIMITS_MAX 8
#define WINDOWS_MAX 16
#define TEXT_MAX 2048
#define LINE_MAX_BYTES (8 * 2 * TEXT_MAX)

static char texts[ITEMS_MAX][6][TEXT_MAX];
static frs_item items[ITEMS_MAX];
static frs_result results[ITEMS_MAX];
static frs_limit limits[ITEMS_MAX][LIMITS_MAX];
static uint32_t windows[ITEMS_MAX][LIMITS_MAX][WINDOWS_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, frs_message());
    exit(1);
}

/* Hexadecimal digits behind an x. Returns the bytes. */
static size_t unhex(const char *hex, char *text)
{
    size_t bytes = strlen(hex + 1) / 2;
    for (size_t at = 0; at < bytes; at++) {
        unsigned byte;
        if (sscanf(hex + 1 + 2 * at, "%2x", &byte) != 1)
            fail("no text");
        text[at] = (char)byte;
    }
    return bytes;
}

static uint64_t seconds(char unit)
{
    return unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 86400;
}

/* Every other item states a rate with a burst in numbers, which say the same as its text. */
static void use_numbers(frs_item *item)
{
    unsigned long long number;
    char unit;
    int read = 0;
    if (sscanf(item->rates, "%llu/%c%n", &number, &unit, &read) != 2 || item->rates[read] != 0)
        return;
    if (number == 0 || strchr("smhd", unit) == NULL || !(item->flags & FRS_BURST))
        return;
    item->flags = (item->flags & ~FRS_BURST) | FRS_RATE;
    item->rate = number;
    item->period_ns = seconds(unit) * 1000000000;
    item->rates = NULL;
}

enum { BIZ, KEY, RATE, MEMBER, ONCE, HOLD };

/* The text of an option, if it is the one of this name. */
static const char *named(const char *option, const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(option, name, bytes) == 0 && option[bytes] == '=' ? option + bytes + 1 : NULL;
}

static void read_option(frs_item *item, char texts[][TEXT_MAX], const char *option)
{
    static const struct { const char *name; uint32_t flag; } flags[] = {
        { "force", FRS_FORCE }, { "detail", FRS_DETAIL }, { "partial", FRS_PARTIAL },
        { "settle", FRS_SETTLE },
    };
    const char *value;
    for (size_t at = 0; at < sizeof flags / sizeof *flags; at++)
        if (strcmp(option, flags[at].name) == 0) {
            item->flags |= flags[at].flag;
            return;
        }
    if ((value = named(option, "count"))) {
        item->count = strtoll(value, NULL, 10);
    } else if ((value = named(option, "rate"))) {
        texts[RATE][unhex(value, texts[RATE])] = 0;
        item->rates = texts[RATE];
    } else if ((value = named(option, "burst"))) {
        item->flags |= FRS_BURST;
        item->burst = strtoull(value, NULL, 10);
    } else if ((value = named(option, "max"))) {
        item->flags |= FRS_MAX;
        item->max = strtoull(value, NULL, 10);
    } else if ((value = named(option, "member"))) {
        item->member = texts[MEMBER];
        item->member_bytes = unhex(value, texts[MEMBER]);
    } else if ((value = named(option, "once"))) {
        item->once = texts[ONCE];
        item->once_bytes = unhex(value, texts[ONCE]);
    } else if ((value = named(option, "hold"))) {
        item->hold = texts[HOLD];
        item->hold_bytes = unhex(value, texts[HOLD]);
    } else if ((value = named(option, "ttl"))) {
        item->flags |= FRS_TTL;
        item->ttl_ms = strtoull(value, NULL, 10);
    } else {
        fail(option);
    }
}

static void read_line(char *line)
{
    if (fgets(line, LINE_MAX_BYTES, stdin) == NULL || strchr(line, '\n') == NULL)
        fail("no line");
}

static void read_item(size_t at)
{
    static char line[LINE_MAX_BYTES];
    read_line(line);
    const char *biz = strtok(line, " \n"), *key = strtok(NULL, " \n"), *option;
    if (biz == NULL || key == NULL)
        fail("no item");
    /* By its length, or with a NUL behind it. */
    frs_item item = FRS_ITEM(texts[at][BIZ], texts[at][KEY]);
    texts[at][BIZ][unhex(biz, texts[at][BIZ])] = 0;
    item.key_bytes = unhex(key, texts[at][KEY]);
    while ((option = strtok(NULL, " \n")))
        read_option(&item, texts[at], option);
    if (item.rates && at % 2 == 0)
        use_numbers(&item);
    items[at] = item;
    frs_result result = FRS_RESULT;
    result.limits = limits[at];
    result.limits_room = LIMITS_MAX;
    results[at] = result;
    for (size_t limit = 0; limit < LIMITS_MAX; limit++) {
        frs_limit empty = FRS_LIMIT;
        empty.history = windows[at][limit];
        empty.history_room = WINDOWS_MAX;
        limits[at][limit] = empty;
    }
}

static void figure(const char *name, int64_t value)
{
    if (value >= 0)
        printf(" %s=%lld", name, (long long)value);
}

static void flag(const char *name, int is_set)
{
    if (is_set)
        printf(" %s=true", name);
}

/* The word of an error is how its text begins. */
static void say_error(int code)
{
    const char *text = frs_strerror(code), *end = strchr(text, ':');
    if (end == NULL)
        fail("an item has this code of another error");
    printf("item error=%.*s\n", (int)(end - text), text);
}

static void say(const frs_result *result)
{
    if (result->code != FRS_OK) {
        say_error(result->code);
        return;
    }
    printf("item limited=%s", result->limited ? "true" : "false");
    if (result->limit > 0)
        figure("limit", result->limit);
    figure("used", result->used);
    figure("max", result->max);
    figure("remaining", result->remaining);
    figure("reset", result->reset_ms);
    figure("retry", result->retry_ms);
    if (result->action[0] != 0)
        printf(" action=%s", result->action);
    if (result->weight >= 0)
        printf(" weight=%g", (double)result->weight / 1000);
    flag("banned", result->banned);
    flag("shadow", result->shadow);
    flag("degraded", result->degraded);
    if (result->list != FRS_LIST_NONE)
        printf(" list=%s", result->list == FRS_LIST_ALLOW ? "allow" : "deny");
    figure("granted", result->granted);
    flag("repeated", result->repeated);
    figure("held", result->held);
    flag("unknown-hold", result->unknown_hold);
    puts("");
    for (size_t at = 0; at < result->limits_count; at++) {
        const frs_limit *limit = &result->limits[at];
        printf("limit index=%d policy=%s", limit->index, limit->policy);
        figure("used", limit->used);
        figure("max", limit->max);
        figure("remaining", limit->remaining);
        figure("reset", limit->reset_ms);
        figure("retry", limit->retry_ms);
        if (limit->standard_error > 0)
            printf(" standard-error=%g", (double)limit->standard_error / 1000);
        if (limit->history_count != FRS_NO_HISTORY) {
            printf(" history=");
            for (size_t nth = 0; nth < limit->history_count; nth++)
                printf(nth > 0 ? ",%u" : "%u", limit->history[nth]);
        }
        puts("");
    }
}

int main(int argc, char **argv)
{
    frs *handle;
    static char line[LINE_MAX_BYTES], id[TEXT_MAX];
    if (argc != 2 || frs_open(argv[1], &handle) != FRS_OK)
        fail("frs_open");
    while (fgets(line, sizeof line, stdin)) {
        const char *call = strtok(line, " \n"), *kind = strtok(NULL, " \n");
        const char *number = strtok(NULL, " \n"), *once = strtok(NULL, " \n");
        if (number == NULL)
            fail("no request");
        int is_query = strcmp(call, "query") == 0, is_atomic = strcmp(kind, "atomic") == 0;
        int refused = 0, code;
        size_t count = strtoul(number, NULL, 10);
        frs_batch_options options = FRS_BATCH_OPTIONS;
        options.flags = (is_query ? FRS_QUERY : 0) | (is_atomic ? FRS_ATOMIC : 0);
        if (once) {
            options.once_bytes = unhex(named(once, "once"), id);
            options.once = id;
        }
        if (count > ITEMS_MAX)
            fail("too many items");
        for (size_t at = 0; at < count; at++)
            read_item(at);
        if (count == 1 && !is_atomic) {
            code = (is_query ? frs_query : frs_update)(handle, items, results);
            /* The code of the call is that of its item. */
            if (code != results[0].code)
                fail("two codes");
            code = FRS_OK;
        } else if (once) {
            code = frs_batch_with(handle, items, results, count, &options, &refused);
        } else {
            code = frs_batch(handle, items, results, count, options.flags, &refused);
        }
        if (code == FRS_TOO_MANY) {
            puts("fault=too-many-items");
        } else if (code != FRS_OK) {
            fail("frs_batch");
        } else {
            printf("refused=%s\n", refused ? "true" : "false");
            for (size_t at = 0; at < count; at++)
                say(&results[at]);
        }
        puts("end");
        fflush(stdout);
    }
    frs_close(handle);
    return 0;
}
