/* What all programs of these tests use: checks that end the program, and a database of its own. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "terrace.h"

#define CHECK(what)                                                       \
    do {                                                                  \
        if (!(what)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);    \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

/* The call has to do what it is to do. */
#define OK(call)                                                          \
    do {                                                                  \
        terrace_error *error = NULL;                                      \
        if ((call) != TERRACE_OK) {                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    terrace_error_message(error));                        \
            exit(1);                                                      \
        }                                                                 \
        CHECK(error == NULL);                                             \
    } while (0)

/* The call has to fail so, and to say so. */
#define FAILS(status, call)                                               \
    do {                                                                  \
        terrace_error *error = NULL;                                      \
        terrace_status got = (call);                                      \
        if (got != (status)) {                                            \
            fprintf(stderr, "%s:%d: %s: %s, %s\n", __FILE__, __LINE__,    \
                    #call, terrace_status_name(got),                      \
                    terrace_error_message(error));                        \
            exit(1);                                                      \
        }                                                                 \
        CHECK(terrace_error_status(error) == (status));                   \
        CHECK(terrace_error_message(error)[0] != 0);                      \
        terrace_error_free(error);                                        \
    } while (0)

#define E &error

static inline int is(terrace_bytes bytes, const char *text) {
    return bytes.data != NULL && bytes.len == strlen(text)
        && strcmp((const char *)bytes.data, text) == 0;
}

static inline int same(terrace_slice bytes, const char *text) {
    return bytes.data != NULL && bytes.len == strlen(text)
        && memcmp(bytes.data, text, bytes.len) == 0;
}

static inline int says(terrace_bytes *json, const char *what) {
    int found = json->data != NULL && strstr((const char *)json->data, what) != NULL;
    if (!found) fprintf(stderr, "%s\n", json->data ? (const char *)json->data : "nothing");
    terrace_bytes_free(json);
    return found;
}

/* A path below the folder of the test. */
static inline const char *below(const char *folder, const char *name) {
    static char paths[8][4096];
    static int next = 0;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline terrace_db *opened(const char *folder, const char *name) {
    terrace_options options = TERRACE_OPTIONS_INIT;
    terrace_db *db = NULL;
    options.memory_bytes = 16 << 20;
    OK(terrace_open(below(folder, name), &options, &db, E));
    return db;
}

static inline terrace_map *tree(terrace_db *db, const char *name) {
    terrace_map *map = NULL;
    OK(terrace_tree(db, name, NULL, &map, E));
    return map;
}

static inline void put(terrace_map *map, const char *key, const char *value) {
    OK(terrace_put(map, TERRACE_STR(key), TERRACE_STR(value), E));
}

static inline int has(terrace_map *map, const char *key, const char *value) {
    terrace_bytes found;
    int right;
    OK(terrace_get(map, TERRACE_STR(key), &found, E));
    right = value == NULL ? found.data == NULL : is(found, value);
    terrace_bytes_free(&found);
    return right;
}

#endif
