/* Forks amid first calls of other threads. Arguments: the data directory, and the number of
 * children that each of the three parts forks. An alarm ends a child that waits for a lock of its
 * parent, and the program fails. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, ALARM_S = 60 };

static const char *data;
static frs *inherited;
static int stop;

static void charge(frs *limits)
{
    frs_item item = FRS_ITEM("plenty", "forks");
    frs_result result = FRS_RESULT;
    SAME(frs_update(limits, &item, &result), FRS_OK);
}

static void *open_once(void *unused)
{
    frs *limits;
    SAME(frs_open(data, &limits), FRS_OK);
    charge(limits);
    frs_close(limits);
    return unused;
}

static void *open_until_told(void *unused)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        open_once(NULL);
    return unused;
}

static void *charge_inherited(void *unused)
{
    charge(inherited);
    return unused;
}

static void close_inherited(int charges)
{
    if (charges)
        charge(inherited);
    frs_close(inherited);
}

static void open_in_child(int unused)
{
    (void)unused;
    open_once(NULL);
}

/* Forks a child that does this work. */
static pid_t forked(void (*work)(int), int argument)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(ALARM_S);
        work(argument);
        _exit(0);
    }
    return child;
}

static void expect_done(pid_t child)
{
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    SAME(status, 0);
}

/* Differs from child to child, so that the fork comes at another point of the call. */
static void pause_a_little(int nth)
{
    for (volatile int turns = nth % 64 * 500; turns > 0; turns--)
        ;
}

/* Two threads make the first calls of a process, and a fork comes amid them. */
static void fork_amid_first_calls(int nth)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, open_once, NULL) == 0);
    pause_a_little(nth);
    expect_done(forked(open_in_child, 0));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* A child makes its first call on a handle of its parent, and a fork comes amid it. */
static void fork_amid_first_call_on_inherited(int nth)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, charge_inherited, NULL) == 0);
    pause_a_little(nth);
    expect_done(forked(close_inherited, nth % 2));
    CHECK(pthread_join(thread, NULL) == 0);
    frs_close(inherited);
}

static void open_in_two_generations(int nth)
{
    open_once(NULL);
    if (nth % 4 == 0)
        expect_done(forked(open_in_child, 0));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    data = argv[1];
    int count = atoi(argv[2]);
    /* This process has made no call yet. */
    for (int nth = 0; nth < count; nth++)
        expect_done(forked(fork_amid_first_calls, nth));

    SAME(frs_open(data, &inherited), FRS_OK);
    for (int nth = 0; nth < count; nth++)
        expect_done(forked(fork_amid_first_call_on_inherited, nth));
    frs_close(inherited);

    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, open_until_told, NULL) == 0);
    for (int nth = 0; nth < count; nth++)
        expect_done(forked(open_in_two_generations, nth));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts("ok");
    return 0;
}
