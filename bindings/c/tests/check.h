/* The common part of the test programs: checks that report their place and end the program. */
#ifndef CHECK_H
#define CHECK_H

#include "frs.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, frs_message()); \
            exit(1); \
        } \
    } while (0)

/* Compares two numbers and shows both. */
#define SAME(found, expected) \
    do { \
        long long is = (long long)(found), be = (long long)(expected); \
        if (is != be) { \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld: %s\n", __FILE__, __LINE__, #found, is, \
                    be, frs_message()); \
            exit(1); \
        } \
    } while (0)

/* Checks that the last message contains this text. */
#define SAYS(words) \
    do { \
        if (!strstr(frs_message(), words)) { \
            fprintf(stderr, "%s:%d: no \"%s\" in: %s\n", __FILE__, __LINE__, words, \
                    frs_message()); \
            exit(1); \
        } \
    } while (0)

#endif
