/* What a get costs in C, to compare with examples/get.rs: get FOLDER RECORDS GETS.

   Prints the processor time of a get; run with two numbers of gets under callgrind it tells the instructions. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "terrace.h"

static uint64_t processor(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void check(terrace_status status) {
    if (status != TERRACE_OK) {
        fprintf(stderr, "%s\n", terrace_status_name(status));
        exit(1);
    }
}

static char keys[4096][24];

int main(int count, char **arguments) {
    terrace_options options = TERRACE_OPTIONS_INIT;
    terrace_db *db;
    terrace_map *tree;
    uint8_t value[128];
    uint64_t records, gets, i, found = 0, best = UINT64_MAX;
    int round;
    if (count != 4) return 2;
    records = strtoull(arguments[2], NULL, 10);
    gets = strtoull(arguments[3], NULL, 10);
    options.memory_bytes = 256 << 20;
    memset(value, 'v', 100);
    check(terrace_open(arguments[1], &options, &db, NULL));
    check(terrace_tree(db, "t", NULL, &tree, NULL));
    for (i = 0; i < records; i++) {
        char key[24];
        snprintf(key, sizeof key, "%016llu", (unsigned long long)i);
        check(terrace_put(tree, terrace_slice_of(key, 16), terrace_slice_of(value, 100), NULL));
    }
    for (i = 0; i < 4096; i++)
        snprintf(keys[i], sizeof keys[i], "%016llu", (unsigned long long)(i * 2654435761u % records));
    for (round = 0; round < 5; round++) {
        uint64_t began = processor();
        for (i = 0; i < gets; i++) {
            size_t len = 0;
            check(terrace_get_into(tree, terrace_slice_of(keys[i & 4095], 16), value, sizeof value, &len, NULL));
            found += len;
        }
        began = processor() - began;
        if (began < best) best = began;
    }
    printf("%.1f ns (%llu)\n", (double)best / (double)gets, (unsigned long long)found);
    check(terrace_close(db, NULL));
    return 0;
}
