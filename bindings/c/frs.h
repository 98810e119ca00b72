/* frs.h: ask an frs server on the same machine, without a network.
 *
 *     frs *limits;
 *     if (frs_open("data", &limits) != FRS_OK)
 *         fail(frs_message());
 *     frs_item item = FRS_ITEM("login", "alice");
 *     frs_result result = FRS_RESULT;
 *     if (frs_update(limits, &item, &result) == FRS_OK && result.limited)
 *         refuse();
 *     frs_close(limits);
 *
 * docs/c.md describes it. Compile with `pkg-config --cflags --libs frs`.
 *
 * A handle serves all threads of a process, and the processes that it forks. A call uses the
 * server's configuration in force and waits for other processes at most lock-timeout of srv.xml.
 * Do not call from a signal handler.
 *
 * Structures begin with their size, which the caller sets: FRS_ITEM, FRS_RESULT, FRS_LIMIT and
 * FRS_OPTIONS set it. A later version appends fields. So a program that was compiled with an older
 * frs.h works with a newer library. An older library refuses a structure whose new fields are not 0
 * with FRS_ARGUMENT, and sets new fields of a result to 0.
 */
#ifndef FRS_H
#define FRS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface that this header describes. */
#define FRS_ABI 1

/* Codes. A refused item is no error: its code is FRS_OK, and `limited` is 1. After an error nothing
 * is charged. */
#define FRS_OK 0
/* The item was not judged. The words are those of the server's answers. */
#define FRS_UNKNOWN_BIZ (-1) /* unknown-biz: map.xml names no such business */
#define FRS_BAD_KEY (-2)     /* bad-key: empty, too long, not UTF-8, or not of the biz's type */
#define FRS_BAD_COUNT (-3)   /* bad-count: out of range */
#define FRS_BAD_RATE (-4)    /* bad-rate: out of bounds, or no limit takes it */
#define FRS_STORE (-5)       /* store: the files failed; try again later */
#define FRS_BUSY (-6)        /* busy: another process held the record; try again */
#define FRS_FULL (-7)        /* full: no room for another key */
#define FRS_BAD_MEMBER (-8)  /* bad-member: a limit notes members, and the item has none */
#define FRS_BAD_ONCE (-9)    /* bad-once: not 1 to 64 bytes, or the biz remembers no ids */
#define FRS_BAD_HOLD (-10)   /* bad-hold: out of bounds, or the biz has no such holds */
#define FRS_FULL_HOLDS (-11) /* full-holds: no room for another hold of the key */
/* This process is not attached. The next call tries again. */
#define FRS_NO_SERVER (-20)  /* no server runs on the data directory */
#define FRS_DENIED (-21)     /* the files are for another user or group */
#define FRS_NO_PLACE (-22)   /* max-programs programs are attached */
#define FRS_FORKED (-23)     /* too many forks since frs_open: open again */
#define FRS_ATTACH (-24)     /* the files cannot be used; frs_message says why */
/* The call itself. */
#define FRS_TOO_MANY (-40)   /* more items than srv.xml allows */
#define FRS_WOULD_WAIT (-41) /* with FRS_TRY: the lease of a shared limit is not there yet */
#define FRS_ARGUMENT (-60)   /* a null pointer, a wrong size, an unknown flag, an id without
                              * FRS_ATOMIC */
#define FRS_OTHER (-98)      /* an error that this version of frs.h does not name */
#define FRS_PANIC (-99)      /* a fault of the library, which was caught */

/* A handle: the attachment of a process. It takes one of max-programs places, or as many as
 * frs_options allow. */
typedef struct frs frs;

/* In place of a length: the text ends with a NUL. */
#define FRS_TEXT ((size_t)-1)

/* Flags of an item. */
#define FRS_FORCE 1u  /* charge even beyond a limit */
#define FRS_DETAIL 2u /* report the figures of every limit, in `limits` of the result */
#define FRS_RATE 4u   /* the item brings its rate: rate uses in each period_ns, burst at once */
/* Flags of an item that has the fields behind member_bytes. */
#define FRS_BURST 8u    /* the item brings the burst of its rates */
#define FRS_MAX 16u     /* the item brings its maximum: max uses in the window of map.xml */
#define FRS_PARTIAL 32u /* charge as many uses as every limit admits: see granted of the result */
#define FRS_TTL 64u     /* the hold lives for ttl_ms, unless it is renewed */
#define FRS_SETTLE 128u /* count is the true cost of the hold, which ends */

/* A use to ask about or to charge. */
typedef struct frs_item {
    size_t size;        /* sizeof(frs_item) */
    const char *biz;    /* name or id of the business, UTF-8 */
    size_t biz_bytes;   /* its length, or FRS_TEXT */
    const char *key;    /* the user, address or account, UTF-8 */
    size_t key_bytes;   /* its length, or FRS_TEXT */
    int64_t count;      /* uses; below 0: returned uses; 0: only a check */
    uint32_t flags;     /* FRS_FORCE, FRS_DETAIL, … or 0 */
    uint32_t reserved;  /* 0 */
    uint64_t rate;      /* with FRS_RATE */
    uint64_t period_ns; /* with FRS_RATE */
    uint64_t burst;     /* with FRS_RATE, or with FRS_BURST for rates */
    const char *member; /* the member for limits of the policy distinct, UTF-8; NULL: none */
    size_t member_bytes; /* its length, or FRS_TEXT */
    const char *rates;  /* for limits with per-call, in their order: "5/90s" or "1000/month", with
                         * spaces between several; NULL: none */
    size_t rates_bytes; /* its length, or FRS_TEXT */
    uint64_t max;       /* with FRS_MAX */
    const char *once;   /* the id, of 1 to 64 bytes, under which an Update is charged once; NULL:
                         * none */
    size_t once_bytes;  /* its length, or FRS_TEXT */
    const char *hold;   /* the id, of 1 to 64 bytes, of the hold that holds count from now on; NULL:
                         * none */
    size_t hold_bytes;  /* its length, or FRS_TEXT */
    uint64_t ttl_ms;    /* with FRS_TTL */
} frs_item;

/* One use of a business by a key, both ending with a NUL. */
#define FRS_ITEM(biz, key) \
    { sizeof(frs_item), (biz), FRS_TEXT, (key), FRS_TEXT, 1, 0, 0, 0, 0, 0, NULL, FRS_TEXT, \
      NULL, FRS_TEXT, 0, NULL, FRS_TEXT, NULL, FRS_TEXT, 0 }

/* The figures of one limit. */
typedef struct frs_limit {
    size_t size;       /* sizeof(frs_limit) */
    uint16_t index;    /* from 1 */
    uint8_t limited;   /* 1: this limit refuses the item */
    uint8_t reserved;
    uint16_t standard_error; /* of used, in thousandths; 0: it is exact */
    uint8_t reserved2[2];
    int64_t used;      /* uses charged in the current window */
    int64_t max;       /* uses that the limit admits in a window */
    int64_t remaining; /* uses that are left */
    int64_t reset_ms;  /* until the window turns; -1: never */
    int64_t retry_ms;  /* until the limit admits the item; -1: now or never */
    char policy[24];   /* the policy's name */
    uint32_t *history;    /* set by the caller: room for the windows before, or NULL */
    size_t history_room;  /* set by the caller: the number of windows */
    size_t history_count; /* known windows before, the newest first, of which the first
                           * history_room are stored. FRS_NO_HISTORY: the limit keeps none */
} frs_limit;

#define FRS_LIMIT { sizeof(frs_limit), 0, 0, 0, 0, { 0 }, 0, 0, 0, 0, 0, "", NULL, 0, 0 }

/* No windows are kept: the limit has no history in map.xml. */
#define FRS_NO_HISTORY ((size_t)-1)

/* Lists of map.xml that decide instead of the limits. */
#define FRS_LIST_NONE 0
#define FRS_LIST_ALLOW 1
#define FRS_LIST_DENY 2

/* The answer on one item. Figures are those of the deciding limit, after the call: the first that
 * refuses, or the one with the least remaining. -1: the figure is missing. */
typedef struct frs_result {
    size_t size;         /* sizeof(frs_result) */
    int32_t code;        /* FRS_OK: the item is judged; else why it is not */
    uint8_t limited;     /* 1: refused */
    uint8_t banned;      /* 1: by a ban */
    uint8_t shadow;      /* 1: not refused, because the business is in shadow mode */
    uint8_t degraded;    /* 1: the server limits nothing at the moment */
    uint8_t list;        /* FRS_LIST_…: the list that decided */
    uint8_t reserved;
    uint16_t limit;      /* index of the deciding limit, from 1; 0: none judged */
    uint32_t reserved2;
    int64_t used;        /* uses charged in the current window */
    int64_t max;         /* uses that the limit admits in a window */
    int64_t remaining;   /* uses that are left */
    int64_t reset_ms;    /* until the window turns; -1: never */
    int64_t retry_ms;    /* until the same item could pass; -1: it passes, or never */
    int64_t weight;      /* of the item, in thousandths; -1: it has none */
    char action[64];     /* the advice of on-exceed; empty: none */
    frs_limit *limits;   /* set by the caller, for FRS_DETAIL: an array, or NULL */
    size_t limits_room;  /* set by the caller: elements of it, each with its size */
    size_t limits_count; /* limits of the business; the first limits_room of them are stored */
    int64_t granted;     /* with FRS_PARTIAL: the uses that were charged, or of a Query would be */
    int64_t held;        /* what is held of the record; -1: the business has no holds */
    uint8_t repeated;    /* 1: charged before, under its once or its hold, and not now */
    uint8_t unknown_hold; /* 1: FRS_SETTLE found no hold, and count was charged */
    uint8_t reserved3[6];
} frs_result;

#define FRS_RESULT \
    { sizeof(frs_result), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", NULL, 0, 0, \
      0, 0, 0, 0, { 0 } }

/* The interface of the library: FRS_ABI of the header that it was built with. */
int frs_abi(void);

/* Attaches to the data directory of a running server. *handle is NULL after an error. */
int frs_open(const char *data_dir, frs **handle);

/* How a handle attaches. */
typedef struct frs_options {
    size_t size;       /* sizeof(frs_options) */
    uint32_t places;   /* calls that run at once in a process, 1 to 8: each takes a place */
    uint32_t reserved; /* 0 */
} frs_options;

/* The options of frs_open: one place in each process. Calls of several threads take turns. */
#define FRS_OPTIONS { sizeof(frs_options), 1, 0 }

/* As frs_open, with options; NULL: FRS_OPTIONS. A second place is taken once two calls run at the
 * same time. If no place is free, the handle works with the places that it has. */
int frs_open_with(const char *data_dir, const frs_options *options, frs **handle);

/* Charges an item if its limits admit it. The code is also in the result. */
int frs_update(frs *handle, const frs_item *item, frs_result *result);

/* Asks what frs_update would answer now, and charges nothing. */
int frs_query(frs *handle, const frs_item *item, frs_result *result);

/* Flags of a batch. */
#define FRS_QUERY 1u  /* charge nothing */
#define FRS_ATOMIC 2u /* all or nothing */
#define FRS_TRY 4u    /* do not wait for the lease of a shared limit: see FRS_WOULD_WAIT */

/* Runs several items in one call, which is faster than one call each. Each result has its own code.
 * *refused, if not NULL, is 1 if an atomic batch charged nothing. */
int frs_batch(frs *handle, const frs_item *items, frs_result *results, size_t count,
              uint32_t flags, int *refused);

/* How a batch runs. */
typedef struct frs_batch_options {
    size_t size;       /* sizeof(frs_batch_options) */
    uint32_t flags;    /* of a batch */
    uint32_t reserved; /* 0 */
    const char *once;  /* with FRS_ATOMIC: the id, of 1 to 64 bytes, under which the batch is
                        * charged once; NULL: none. Its items have none */
    size_t once_bytes; /* its length, or FRS_TEXT */
} frs_batch_options;

#define FRS_BATCH_OPTIONS { sizeof(frs_batch_options), 0, 0, NULL, FRS_TEXT }

/* As frs_batch, with options; NULL: FRS_BATCH_OPTIONS. */
int frs_batch_with(frs *handle, const frs_item *items, frs_result *results, size_t count,
                   const frs_batch_options *options, int *refused);

/* Frees the handle, and its place if this process has one. No other call may use the handle any
 * more. */
void frs_close(frs *handle);

/* The meaning of a code. Never NULL. Do not free it. */
const char *frs_strerror(int code);

/* What this thread's last failed call found, and what it expected. Valid until the next call of
 * this thread; empty if no call has failed. */
const char *frs_message(void);

#ifdef __cplusplus
}
#endif

#endif
