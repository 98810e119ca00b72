/* The face of programs in C: obeys the lines that tests/it/faces/driven.rs describes. */
#include <frs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 64
#define LIMITS_MAX 8
#define WINDOWS_MAX 16
#define TEXT_MAX 2048

static char texts[ITEMS_MAX][3][TEXT_MAX];
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

static void read_item(size_t at)
{
    static char biz[2 * TEXT_MAX], key[2 * TEXT_MAX], member[2 * TEXT_MAX];
    char count[32], rate[32];
    int force, detail;
    unsigned long long burst;
    if (scanf("%4095s %4095s %31s %d %d %31s %llu %4095s", biz, key, count, &force, &detail, rate,
              &burst, member) != 8)
        fail("no item");
    /* By its length, or with a NUL behind it. */
    frs_item item = FRS_ITEM(texts[at][0], texts[at][1]);
    texts[at][0][unhex(biz, texts[at][0])] = 0;
    item.key_bytes = unhex(key, texts[at][1]);
    if (strcmp(count, "-") != 0)
        item.count = strtoll(count, NULL, 10);
    item.flags = (force ? FRS_FORCE : 0) | (detail ? FRS_DETAIL : 0);
    if (strcmp(rate, "-") != 0) {
        char unit;
        unsigned long long number;
        if (sscanf(rate, "%llu/%c", &number, &unit) != 2)
            fail("no rate");
        item.flags |= FRS_RATE;
        item.rate = number;
        item.period_ns = seconds(unit) * 1000000000;
        item.burst = burst;
    }
    if (strcmp(member, "-") != 0) {
        item.member = texts[at][2];
        item.member_bytes = unhex(member, texts[at][2]);
    }
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
    char call[8], kind[8];
    size_t count;
    if (argc != 2 || frs_open(argv[1], &handle) != FRS_OK)
        fail("frs_open");
    while (scanf("%7s %7s %zu", call, kind, &count) == 3) {
        int is_query = strcmp(call, "query") == 0, is_atomic = strcmp(kind, "atomic") == 0;
        int refused = 0, code;
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
        } else {
            uint32_t flags = (is_query ? FRS_QUERY : 0) | (is_atomic ? FRS_ATOMIC : 0);
            code = frs_batch(handle, items, results, count, flags, &refused);
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
