/* Provokes each code of frs.h that a program can get, and names those that it cannot. Arguments:
 * the data directory of a server, an empty folder. The map is CODES_MAP of tests/it/library/c.rs. */
#include "check.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* max-programs of the server. */
enum { PLACES = 3 };
/* One more than the generations of forked children that a handle works in. */
enum { TOO_MANY_FORKS = 64 };
enum { MANY = 1025 };

static const char *data, *folder;
static frs *limits;

static int update(const char *biz, const char *key, int64_t count, uint32_t flags)
{
    frs_item item = FRS_ITEM(biz, key);
    frs_result result = FRS_RESULT;
    item.count = count;
    item.flags = flags;
    item.rate = item.period_ns = item.burst = 1;
    int code = frs_update(limits, &item, &result);
    SAME(result.code, code);
    return code;
}

static int ok(void) { return update("plenty", "k", 1, 0); }
static int unknown_biz(void) { return update("nope", "k", 1, 0); }
static int bad_key(void) { return update("plenty", "", 1, 0); }
static int bad_count(void) { return update("plenty", "k", INT64_MAX, 0); }
static int bad_rate(void) { return update("plenty", "k", 1, FRS_RATE); }
/* A limit counts members, and the item has none. */
static int bad_member(void) { return update("devices", "k", 1, 0); }
/* The business remembers no ids. */
static int bad_once(void)
{
    frs_item item = FRS_ITEM("plenty", "k");
    frs_result result = FRS_RESULT;
    item.once = "b7c1";
    return frs_update(limits, &item, &result);
}

static int hold(const char *biz, const char *id)
{
    frs_item item = FRS_ITEM(biz, "k");
    frs_result result = FRS_RESULT;
    item.hold = id;
    return frs_update(limits, &item, &result);
}

/* The business has no holds. */
static int bad_hold(void) { return hold("plenty", "req-1"); }

/* A record has room for one hold. */
static int full_holds(void)
{
    SAME(hold("holding", "req-1"), FRS_OK);
    return hold("holding", "req-2");
}

/* The test has damaged the file of its group. */
static int store(void) { return update("damaged", "k", 1, 0); }
/* The cluster is silent, and the business has on-miss="busy". */
static int busy(void) { return update("shared", "k", 1, 0); }
static int argument(void) { return update(NULL, "k", 1, 0); }

/* Its group has room for two keys. */
static int full(void)
{
    SAME(update("narrow", "a", 1, 0), FRS_OK);
    SAME(update("narrow", "b", 1, 0), FRS_OK);
    return update("narrow", "c", 1, 0);
}

static int no_server(void)
{
    frs *none;
    return frs_open(folder, &none);
}

static int opened_here(const char *dir)
{
    frs *none;
    int code = frs_open(dir, &none);
    CHECK((code == FRS_OK) == (none != NULL));
    frs_close(none);
    return code;
}

/* A folder that no other user may enter. A child of root becomes another user for it. */
static int denied(void)
{
    char closed[4096];
    snprintf(closed, sizeof closed, "%s/closed", folder);
    CHECK(mkdir(closed, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(1);
        _exit(-opened_here(closed));
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return -WEXITSTATUS(status);
}

static int no_place(void)
{
    frs *others[PLACES];
    int taken = 0, code;
    while ((code = frs_open(data, &others[taken])) == FRS_OK)
        CHECK(++taken < PLACES);
    SAME(taken, PLACES - 1);
    while (taken > 0)
        frs_close(others[--taken]);
    return code;
}

/* The last of a chain of children, each forked by the one before. */
static int forked(void)
{
    for (int i = 0; i < TOO_MANY_FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child != 0) {
            int status = -1;
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
            if (i == 0)
                return -WEXITSTATUS(status);
            _exit(WEXITSTATUS(status));
        }
    }
    _exit(-ok());
}

static int attach(void)
{
    char dir[4096], path[4200];
    snprintf(dir, sizeof dir, "%s/other", folder);
    snprintf(path, sizeof path, "%s/runtime.mmap", dir);
    CHECK(mkdir(dir, 0700) == 0);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("no runtime.mmap", file) >= 0 && fclose(file) == 0);
    return opened_here(dir);
}

static int batch(size_t count, uint32_t flags)
{
    static frs_item items[MANY];
    static frs_result results[MANY];
    for (size_t i = 0; i < count; i++) {
        items[i] = (frs_item)FRS_ITEM("shared", "batch");
        results[i] = (frs_result)FRS_RESULT;
    }
    int code = frs_batch(limits, items, results, count, flags, NULL);
    return code == FRS_OK ? results[0].code : code;
}

static int too_many(void) { return batch(MANY, 0); }
static int would_wait(void) { return batch(1, FRS_TRY); }

static const struct {
    const char *name;
    int code;
    /* NULL: a program cannot provoke it. */
    int (*provoke)(void);
    const char *why_not;
} CODES[] = {
#define CODE(name, provoke) { #name, name, provoke, NULL }
    CODE(FRS_OK, ok),
    CODE(FRS_UNKNOWN_BIZ, unknown_biz),
    CODE(FRS_BAD_KEY, bad_key),
    CODE(FRS_BAD_COUNT, bad_count),
    CODE(FRS_BAD_RATE, bad_rate),
    CODE(FRS_STORE, store),
    CODE(FRS_BUSY, busy),
    CODE(FRS_FULL, full),
    CODE(FRS_BAD_MEMBER, bad_member),
    CODE(FRS_BAD_ONCE, bad_once),
    CODE(FRS_BAD_HOLD, bad_hold),
    CODE(FRS_FULL_HOLDS, full_holds),
    CODE(FRS_NO_SERVER, no_server),
    CODE(FRS_DENIED, denied),
    CODE(FRS_NO_PLACE, no_place),
    CODE(FRS_FORKED, forked),
    CODE(FRS_ATTACH, attach),
    CODE(FRS_TOO_MANY, too_many),
    CODE(FRS_WOULD_WAIT, would_wait),
    CODE(FRS_ARGUMENT, argument),
    { "FRS_OTHER", FRS_OTHER, NULL, "each error of this library has a code" },
    { "FRS_PANIC", FRS_PANIC, NULL, "only a fault of the library gives it" },
};

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    data = argv[1];
    folder = argv[2];
    SAME(frs_open(data, &limits), FRS_OK);
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) {
        int expected = CODES[i].code;
        if (CODES[i].provoke == NULL) {
            printf("%s %d not provoked: %s\n", CODES[i].name, expected, CODES[i].why_not);
            continue;
        }
        int found = CODES[i].provoke();
        if (found != expected) {
            fprintf(stderr, "%s: found %d: %s\n", CODES[i].name, found, frs_message());
            return 1;
        }
        /* After each code the handle still works. */
        SAME(ok(), FRS_OK);
        printf("%s %d\n", CODES[i].name, expected);
        fflush(stdout);
    }
    frs_close(limits);
    return 0;
}
