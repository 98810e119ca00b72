/* SIGBUS beside other handlers. Arguments: libfrs.so, the data directory, the first file of the
 * group, and the part to play. A part that ends before its end prints how far it came. */
#include "check_signals.h"

/* Another handler was installed before: it receives faults outside of frs's files as the kernel
 * would deliver them, and is restored after the last close. */
static void before(void)
{
    put_own_handler(SA_SIGINFO | SA_ONSTACK);
    for (int round = 0; round < 2; round++) {
        void *one = opened(), *other = opened();
        fail_own_page();
        charge(one);
        close_handle(one);
        fail_own_page();
        close_handle(other);
        expect_own_action(SA_SIGINFO | SA_ONSTACK);
    }
    fail_own_page();
}

/* A signal sent by a process has no address. */
static void sent(void)
{
    put_own_handler(SA_SIGINFO);
    void *limits = opened();
    SENT = 1;
    raise(SIGBUS);
    CHECK(CAUGHT == 1);
    close_handle(limits);
}

/* The other handler has SA_RESETHAND: it is called once. */
static void once(void)
{
    put_own_handler(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
    void *limits = opened();
    fail_own_page();
    close_handle(limits);
    struct sigaction now;
    sigaction(SIGBUS, NULL, &now);
    CHECK(now.sa_handler == SIG_DFL);
}

/* Signals that are ignored stay so, and the default action ends the process by the signal. */
static void ignored(void)
{
    signal(SIGBUS, SIG_IGN);
    void *limits = opened();
    raise(SIGBUS);
    charge(limits);
    puts("ignored");
    fflush(stdout);
    /* The kernel cannot ignore a fault. */
    touch_lost_page();
}

static void by_default(void)
{
    opened();
    puts("default");
    fflush(stdout);
    touch_lost_page();
}

/* A handler that is installed later stays, and the frs handler that it replaced stays callable
 * after the library is closed. */
static void after(void)
{
    void *limits = opened();
    put_own_handler(SA_SIGINFO | SA_ONSTACK);
    fail_own_page();
    close_handle(limits);
    expect_own_action(SA_SIGINFO | SA_ONSTACK);
    /* frs does not install its handler again: each handler would call the other forever. */
    limits = opened();
    expect_own_action(SA_SIGINFO | SA_ONSTACK);
    close_handle(limits);
    CHECK(dlclose(library) == 0);
    sigaction(SIGBUS, &replaced, NULL);
    puts("after");
    fflush(stdout);
    touch_lost_page();
}

/* The library is closed while its handle is open: the handler's address must stay valid. */
static void unloaded(void)
{
    opened();
    CHECK(dlclose(library) == 0);
    puts("unloaded");
    fflush(stdout);
    touch_lost_page();
}

/* A file of frs fails: frs's own handler names it, whatever handler was installed before. */
static void own(void)
{
    put_own_handler(SA_SIGINFO | SA_ONSTACK);
    void *limits = opened();
    charge(limits);
    puts("own");
    fflush(stdout);
    CHECK(truncate(group, 4096) == 0);
    charge(limits);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    load(argv[1], argv[2], argv[3]);
    static const struct { const char *name; void (*play)(void); } parts[] = {
        { "before", before }, { "sent", sent }, { "once", once }, { "ignored", ignored },
        { "default", by_default }, { "after", after }, { "unloaded", unloaded }, { "own", own },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, argv[4]) == 0) {
            parts[i].play();
            puts("ok");
            return 0;
        }
    CHECK(!"a part");
}
