/* The cost of an Update from C: nanoseconds each, one after another, of keys that exist. Arguments:
 * the data directory, the number of keys, the number of Updates. `cargo bench -p frs-server
 * --bench c` runs it beside the same in Rust. */
#include <frs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_BYTES = 12 };

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, frs_message());
    exit(1);
}

static frs *limits;

static void update(const char *key)
{
    frs_item item = FRS_ITEM("hit", key);
    frs_result result = FRS_RESULT;
    item.biz_bytes = 3;
    item.key_bytes = KEY_BYTES;
    if (frs_update(limits, &item, &result) != FRS_OK || result.limited)
        fail("frs_update");
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    unsigned keys = (unsigned)atol(argv[2]);
    long updates = atol(argv[3]);
    char *texts = malloc((size_t)keys * (KEY_BYTES + 1));
    if (frs_open(argv[1], &limits) != FRS_OK)
        fail("frs_open");
    for (unsigned key = 0; key < keys; key++) {
        /* Keys that are made one after the other do not lie side by side in the file. */
        snprintf(texts + (size_t)key * KEY_BYTES, KEY_BYTES + 1, "key-%08x", key * 2654435761u);
        update(texts + (size_t)key * KEY_BYTES);
    }
    double begun = now_ns();
    unsigned key = 0;
    for (long done = 0; done < updates; done++) {
        update(texts + (size_t)key * KEY_BYTES);
        key = key + 1 == keys ? 0 : key + 1;
    }
    printf("%f\n", (now_ns() - begun) / (double)updates);
    frs_close(limits);
    free(texts);
    return 0;
}
