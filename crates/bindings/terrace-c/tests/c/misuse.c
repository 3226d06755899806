/* Whatever is done wrong is an error, and never the end of the program. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void null_everywhere(terrace_db *db, terrace_map *map) {
    terrace_slice key = TERRACE_STR("k"), nothing = {NULL, 3};
    terrace_slice keys[1], rest;
    terrace_bytes value;
    terrace_cursor *cursor = NULL;
    terrace_db *other = NULL;
    size_t len = 0, at = 4;
    uint8_t buffer[4];
    keys[0] = nothing;
    FAILS(TERRACE_INVALID, terrace_open(NULL, NULL, &other, E));
    FAILS(TERRACE_INVALID, terrace_open("", NULL, &other, E));
    FAILS(TERRACE_INVALID, terrace_open("/nowhere", NULL, NULL, E));
    FAILS(TERRACE_CLOSED, terrace_sync(NULL, E));
    FAILS(TERRACE_CLOSED, terrace_get(NULL, key, &value, E));
    FAILS(TERRACE_INVALID, terrace_get(map, key, NULL, E));
    FAILS(TERRACE_INVALID, terrace_get(map, nothing, &value, E));
    FAILS(TERRACE_INVALID, terrace_put(map, key, nothing, E));
    FAILS(TERRACE_INVALID, terrace_get_into(map, key, NULL, 4, &len, E));
    FAILS(TERRACE_INVALID, terrace_get_into(map, key, buffer, 4, NULL, E));
    FAILS(TERRACE_INVALID, terrace_get_many(map, NULL, 2, &value, E));
    FAILS(TERRACE_INVALID, terrace_get_many(map, &key, 1, NULL, E));
    FAILS(TERRACE_INVALID, terrace_get_many(map, keys, 1, &value, E));
    FAILS(TERRACE_INVALID, terrace_merge(map, key, NULL, 0, NULL, E));
    FAILS(TERRACE_INVALID, terrace_range(map, NULL, NULL, false, NULL, E));
    FAILS(TERRACE_INVALID, terrace_tree(db, NULL, NULL, &map, E));
    FAILS(TERRACE_INVALID, terrace_tree(db, "t", NULL, NULL, E));
    FAILS(TERRACE_INVALID, terrace_tree(db, "\xff\xfe", NULL, &map, E));
    FAILS(TERRACE_INVALID, terrace_stats(db, NULL, E));
    FAILS(TERRACE_INVALID, terrace_mark(db, NULL, NULL, E));
    FAILS(TERRACE_INVALID, terrace_backup(db, NULL, NULL, &value, E));
    FAILS(TERRACE_INVALID, terrace_write_encoded(db, NULL, 1, key, 0, E));
    FAILS(TERRACE_INVALID, terrace_write_encoded(db, NULL, 0, nothing, 0, E));
    FAILS(TERRACE_INVALID, terrace_begin(db, NULL, NULL, E));
    FAILS(TERRACE_CLOSED, terrace_cursor_next(cursor, &key, NULL, E));
    OK(terrace_close(NULL, E));
    terrace_cursor_close(NULL);
    terrace_map_close(NULL);
    terrace_batch_destroy(NULL);
    terrace_abort(NULL);
    terrace_release_snapshot(NULL);
    terrace_bytes_free(NULL);
    terrace_error_free(NULL);
    CHECK(terrace_error_status(NULL) == TERRACE_OK && terrace_error_message(NULL)[0] == 0);
    CHECK(!terrace_window_next(key, NULL, &key, &rest) && !terrace_window_next(key, &at, NULL, NULL));
    /* Who wants no details gets the status. */
    CHECK(terrace_get(NULL, key, &value, NULL) == TERRACE_CLOSED);
}

static void lies(terrace_db *db, terrace_map *map) {
    terrace_slice lie = TERRACE_STR("k"), key = TERRACE_STR("k"), all;
    terrace_options options = TERRACE_OPTIONS_INIT;
    terrace_map_options map_options = TERRACE_MAP_OPTIONS_INIT;
    terrace_db *other = NULL;
    terrace_bytes value;
    size_t i;
    const size_t lengths[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 40, (size_t)1 << 31};
    for (i = 0; i < 4; i++) {
        lie.len = lengths[i];
        FAILS(TERRACE_KEY_TOO_LONG, terrace_get(map, lie, &value, E));
        FAILS(TERRACE_VALUE_TOO_LONG, terrace_put(map, key, lie, E));
    }
    FAILS(TERRACE_INVALID, terrace_get_many(map, &key, SIZE_MAX / 8, &value, E));
    FAILS(TERRACE_INVALID, terrace_write_encoded(db, &map, 1, (all = key, all.len = SIZE_MAX, all), 0, E));
    FAILS(TERRACE_INVALID, terrace_put_with(map, key, key, 9, E));
    options.size = 0;
    FAILS(TERRACE_INVALID, terrace_open("/nowhere", &options, &other, E));
    options.size = sizeof options + 8;
    FAILS(TERRACE_INVALID, terrace_open("/nowhere", &options, &other, E));
    map_options.tiers = 5;
    FAILS(TERRACE_INVALID, terrace_tree(db, "t", &map_options, &map, E));
    map_options.tiers = 0;
    map_options.logged = 5;
    FAILS(TERRACE_INVALID, terrace_tree(db, "t", &map_options, &map, E));
    map_options.logged = 0;
    map_options.index_count = 3;
    FAILS(TERRACE_INVALID, terrace_table(db, "t", &map_options, &map, E));
    CHECK(has(map, "k", NULL));
}

static void foreign(const char *folder, terrace_db *db, terrace_map *map) {
    terrace_slice key = TERRACE_STR("k");
    terrace_db *other = opened(folder, "other");
    terrace_map *theirs = tree(other, "tree");
    terrace_transaction *transaction = NULL;
    terrace_batch *batch = NULL;
    terrace_bytes value;
    int local = 0;
    /* A pointer to something else, of another kind, or that never was one. */
    FAILS(TERRACE_CLOSED, terrace_get((terrace_map *)(void *)&local, key, &value, E));
    FAILS(TERRACE_CLOSED, terrace_get((terrace_map *)(void *)db, key, &value, E));
    FAILS(TERRACE_CLOSED, terrace_close((terrace_db *)(void *)map, E));
    FAILS(TERRACE_CLOSED, terrace_put((terrace_map *)(uintptr_t)-1, key, key, E));
    terrace_map_close((terrace_map *)(void *)db);
    terrace_cursor_close((terrace_cursor *)(void *)db);
    /* Of another database. */
    OK(terrace_batch_create(db, &batch, E));
    OK(terrace_batch_put(batch, map, key, key, E));
    OK(terrace_batch_put(batch, theirs, key, key, E));
    FAILS(TERRACE_INVALID, terrace_write(db, batch, 0, E));
    OK(terrace_begin(db, NULL, &transaction, E));
    FAILS(TERRACE_INVALID, terrace_transaction_put(transaction, theirs, key, key, E));
    terrace_abort(transaction);
    CHECK(has(map, "k", NULL) && has(theirs, "k", NULL));
    OK(terrace_close(other, E));
    OK(terrace_close(other, E));
    FAILS(TERRACE_CLOSED, terrace_get(theirs, key, &value, E));
    FAILS(TERRACE_CLOSED, terrace_batch_put(batch, theirs, key, key, E));
    CHECK(has(map, "k", NULL));
}

static void in_a_child(const char *folder, terrace_db *db, terrace_map *map) {
    terrace_slice key = TERRACE_STR("k");
    terrace_cursor *cursor = NULL;
    terrace_map *made = NULL;
    terrace_bytes value;
    int status = 1;
    pid_t child;
    OK(terrace_range(map, NULL, NULL, false, &cursor, E));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        terrace_db *own;
        FAILS(TERRACE_FORKED, terrace_get(map, key, &value, E));
        FAILS(TERRACE_FORKED, terrace_put(map, key, key, E));
        FAILS(TERRACE_FORKED, terrace_cursor_next(cursor, &key, NULL, E));
        FAILS(TERRACE_FORKED, terrace_tree(db, "t", NULL, &made, E));
        FAILS(TERRACE_FORKED, terrace_stats(db, &value, E));
        terrace_cursor_close(cursor);
        terrace_map_close(map);
        FAILS(TERRACE_FORKED, terrace_close(db, E));
        /* What the child opens itself is its own. */
        own = opened(folder, "of the child");
        put(tree(own, "tree"), "k", "v");
        OK(terrace_close(own, E));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    terrace_cursor_close(cursor);
    CHECK(has(map, "k", NULL));
}

struct inside {
    terrace_db *db;
    terrace_map *map;
    terrace_cursor *cursor;
    int number;
};

static void *busy(void *context) {
    struct inside *inside = (struct inside *)context;
    terrace_slice key, value;
    terrace_bytes found;
    terrace_status status = TERRACE_OK;
    char name[16];
    int i;
    snprintf(name, sizeof name, "%d", inside->number);
    for (i = 0; status == TERRACE_OK; i++) {
        switch ((inside->number + i) % 4) {
        case 0:
            status = terrace_put(inside->map, TERRACE_STR(name), TERRACE_STR("v"), NULL);
            break;
        case 1:
            found.data = NULL;
            status = terrace_get(inside->map, TERRACE_STR(name), &found, NULL);
            if (status == TERRACE_OK) terrace_bytes_free(&found);
            break;
        case 2:
            /* All share one cursor: each window goes to one of them. */
            status = terrace_cursor_window(inside->cursor, 0, &found, NULL, NULL);
            if (status == TERRACE_OK) terrace_bytes_free(&found);
            break;
        default:
            status = terrace_cursor_next(inside->cursor, &key, &value, NULL);
            if (status == TERRACE_INVALID) status = TERRACE_OK;
        }
    }
    CHECK(status == TERRACE_CLOSED);
    return NULL;
}

static void closed_while_others_are_inside(const char *folder) {
    pthread_t threads[8];
    struct inside inside[8];
    terrace_db *db = opened(folder, "busy");
    terrace_map *map = tree(db, "tree");
    terrace_cursor *cursor = NULL;
    int i;
    for (i = 0; i < 500; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        put(map, key, "some value");
    }
    OK(terrace_range(map, NULL, NULL, false, &cursor, E));
    for (i = 0; i < 8; i++) {
        inside[i].db = db;
        inside[i].map = map;
        inside[i].cursor = cursor;
        inside[i].number = i;
        CHECK(pthread_create(&threads[i], NULL, busy, &inside[i]) == 0);
    }
    put(map, "one more", "call");
    OK(terrace_close(db, E));
    for (i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    db = opened(folder, "busy");
    CHECK(has(tree(db, "tree"), "one more", "call"));
    OK(terrace_close(db, E));
}

int main(int count, char **arguments) {
    terrace_error *error = NULL;
    terrace_db *db, *twice = NULL;
    terrace_map *map;
    CHECK(count == 2);
    db = opened(arguments[1], "db");
    map = tree(db, "tree");
    FAILS(TERRACE_LOCKED, terrace_open(below(arguments[1], "db"), NULL, &twice, E));
    /* An error of the operating system has its number. */
    CHECK(terrace_open("/dev/null/db", NULL, &twice, &error) == TERRACE_IO);
    CHECK(terrace_error_os(error) != 0 && error != NULL);
    terrace_error_free(error);
    CHECK(strcmp(terrace_status_name(TERRACE_DISK_FULL), "disk_full") == 0);
    CHECK(strcmp(terrace_status_name(9999), "unknown") == 0);
    null_everywhere(db, map);
    lies(db, map);
    foreign(arguments[1], db, map);
    in_a_child(arguments[1], db, map);
    CHECK(has(map, "k", NULL));
    OK(terrace_close(db, E));
    closed_while_others_are_inside(arguments[1]);
    return 0;
}
