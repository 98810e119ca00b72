/* The parts of signals.c: the library as dlopen finds it, a page that is lost, and a handler on an
 * alternate stack that checks everything that the kernel passes to it. */
#ifndef CHECK_SIGNALS_H
#define CHECK_SIGNALS_H

#include "frs.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static void *library;
static const char *data, *group;
static int (*open_handle)(const char *, frs **);
static int (*update)(const frs *, const frs_item *, frs_result *);
static void (*close_it)(frs *);

static char other_stack[64 * 1024];
static char *lost_page;
static sigjmp_buf back;
static volatile int CAUGHT, SENT;
static struct sigaction replaced;

static void load(const char *path, const char *data_dir, const char *file)
{
    data = data_dir, group = file;
    library = dlopen(path, RTLD_NOW);
    CHECK(library);
    *(void **)&open_handle = dlsym(library, "frs_open");
    *(void **)&update = dlsym(library, "frs_update");
    *(void **)&close_it = dlsym(library, "frs_close");
    CHECK(open_handle && update && close_it);
    /* A page of a file that has become shorter. */
    FILE *file_of_one = tmpfile();
    CHECK(file_of_one && ftruncate(fileno(file_of_one), 4096) == 0);
    lost_page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file_of_one), 0);
    CHECK(lost_page != MAP_FAILED && ftruncate(fileno(file_of_one), 0) == 0);
    stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof other_stack };
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void *opened(void)
{
    frs *limits;
    CHECK(open_handle(data, &limits) == FRS_OK);
    return limits;
}

static void charge(void *limits)
{
    frs_item item = FRS_ITEM("plenty", "signals");
    frs_result result = FRS_RESULT;
    CHECK(update(limits, &item, &result) == FRS_OK);
}

static void close_handle(void *limits)
{
    close_it(limits);
}

static void touch_lost_page(void)
{
    volatile char *at = lost_page;
    (void)*at;
}

static int is_blocked(int signal)
{
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, signal);
}

static void on_bus(int signal, siginfo_t *info, void *context)
{
    char here;
    CHECK(signal == SIGBUS && context);
    CHECK(is_blocked(SIGUSR1) && is_blocked(SIGBUS) && !is_blocked(SIGUSR2));
    CAUGHT++;
    if (SENT) {
        CHECK(info->si_code == SI_TKILL && info->si_pid == getpid());
        return;
    }
    CHECK(info->si_code == BUS_ADRERR && info->si_addr == lost_page);
    uintptr_t at = (uintptr_t)&here, low = (uintptr_t)other_stack;
    CHECK(at >= low && at < low + sizeof other_stack);
    siglongjmp(back, 1);
}

static void put_own_handler(int flags)
{
    struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = flags };
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    CHECK(sigaction(SIGBUS, &action, &replaced) == 0);
}

static void expect_own_action(int flags)
{
    struct sigaction now;
    CHECK(sigaction(SIGBUS, NULL, &now) == 0);
    /* The C library adds a flag of its own. */
    CHECK(now.sa_sigaction == on_bus && (now.sa_flags & ~0x04000000) == flags);
    CHECK(sigismember(&now.sa_mask, SIGUSR1) && !sigismember(&now.sa_mask, SIGUSR2));
}

/* The page fails, and the handler continues after the access. */
static void fail_own_page(void)
{
    int caught = CAUGHT;
    if (sigsetjmp(back, 1) == 0) {
        touch_lost_page();
        CHECK(!"the page was readable");
    }
    CHECK(CAUGHT == caught + 1);
}

#endif
