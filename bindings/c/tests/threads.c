/* Threads and forks with one handle. Argument: the data directory. Prints each step, and waits for
 * a line, so that the test can look at the server meanwhile. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, UPDATES = 1000 };

static frs *limits;

static int64_t charge(void)
{
    frs_item item = FRS_ITEM("plenty", "threads");
    frs_result result = FRS_RESULT;
    SAME(frs_update(limits, &item, &result), FRS_OK);
    return result.used;
}

static void *charge_often(void *unused)
{
    for (int i = 0; i < UPDATES; i++)
        charge();
    /* Each thread has a message of its own. */
    frs_item item = FRS_ITEM("nope", "threads");
    frs_result result = FRS_RESULT;
    SAME(*frs_message(), 0);
    SAME(frs_update(limits, &item, &result), FRS_UNKNOWN_BIZ);
    SAYS("unknown-biz");
    return unused;
}

static frs *wide;
static int stop;

static void *charge_until_told(void *unused)
{
    frs_item item = FRS_ITEM("plenty", "places");
    frs_result result = FRS_RESULT;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        SAME(frs_update(wide, &item, &result), FRS_OK);
    return unused;
}

static void pause_here(const char *said)
{
    char line[8];
    puts(said);
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    CHECK(argc == 2);
    SAME(frs_open(argv[1], &limits), FRS_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, charge_often, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    SAME(charge(), THREADS * UPDATES + 1);
    pause_here("threads");

    pid_t child = fork();
    if (child == 0) {
        /* The first call attaches anew. The parent's place does not change. */
        SAME(charge(), THREADS * UPDATES + 2);
        pause_here("child");
        frs_close(limits);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    SAME(status, 0);
    SAME(charge(), THREADS * UPDATES + 3);
    pause_here("parent");

    /* Calls that run at once take more places while the test looks. */
    frs_options options = FRS_OPTIONS;
    options.places = 4;
    SAME(frs_open_with(argv[1], &options, &wide), FRS_OK);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, charge_until_told, NULL) == 0);
    pause_here("places");
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    frs_close(wide);
    pause_here("one");
    frs_close(limits);
    puts("ok");
    return 0;
}
