/* Records that are there until their time. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

/* What the next commit tells of its only change. */
static void told(terrace_changes *changes, uint32_t what, uint64_t time_ms) {
    terrace_bytes commit;
    terrace_change change;
    size_t at = TERRACE_COMMIT_HEAD;
    OK(terrace_changes_next(changes, TERRACE_FOREVER, &commit, NULL, E));
    CHECK(terrace_commit_next(terrace_slice_of(commit.data, commit.len), &at, &change));
    CHECK(change.what == what && change.time_ms == time_ms);
    terrace_bytes_free(&commit);
}

static uint64_t until(terrace_map *map, const char *key) {
    uint64_t time = 7;
    OK(terrace_expires(map, TERRACE_STR(key), &time, E));
    return time;
}

/* In the year 2200. */
static const uint64_t late = 7258118400000u;

/* Times that are given, told and taken back; NULL, and structures where records stay. */
static void leases(terrace_db *db) {
    terrace_map_options options = TERRACE_MAP_OPTIONS_INIT;
    terrace_changes *changes = NULL;
    terrace_batch *batch = NULL;
    terrace_map *map = NULL, *plain = tree(db, "plain");
    bool there = false;
    options.expiring = 1;
    OK(terrace_changes_begin(db, NULL, &changes, E));
    OK(terrace_hash(db, "sessions", &options, &map, E));
    told(changes, TERRACE_CHANGE_CREATED, 0);
    OK(terrace_put_until(map, TERRACE_STR("a"), TERRACE_STR("1"), late, TERRACE_SYNC, E));
    told(changes, TERRACE_CHANGE_PUT, late);
    CHECK(until(map, "a") == late && has(map, "a", "1"));
    OK(terrace_expire_in(map, TERRACE_STR("a"), TERRACE_FOREVER, &there, E));
    CHECK(there && until(map, "a") == TERRACE_FOREVER);
    OK(terrace_expire_at(map, TERRACE_STR("a"), late, &there, E));
    CHECK(there && until(map, "a") == late);
    OK(terrace_expire_at(map, TERRACE_STR("a"), 1, NULL, E));
    CHECK(until(map, "a") == 0 && has(map, "a", NULL));
    OK(terrace_put_for(map, TERRACE_STR("b"), TERRACE_STR("2"), 100000000, E));
    CHECK(until(map, "b") > 100000000 && until(map, "b") < late);
    OK(terrace_batch_create(db, &batch, E));
    OK(terrace_batch_put_until(batch, map, TERRACE_STR("c"), TERRACE_STR("3"), late, E));
    OK(terrace_batch_put_until(batch, map, TERRACE_STR("b"), TERRACE_STR("3"), 1, E));
    OK(terrace_batch_put_until(batch, map, TERRACE_STR("d"), TERRACE_STR("4"), TERRACE_FOREVER, E));
    OK(terrace_write(db, batch, 0, E));
    terrace_batch_destroy(batch);
    CHECK(has(map, "b", NULL) && has(map, "c", "3") && until(map, "d") == TERRACE_FOREVER);
    OK(terrace_expire_in(map, TERRACE_STR("b"), 1, &there, E));
    CHECK(!there);
    put(plain, "a", "1");
    CHECK(until(plain, "a") == TERRACE_FOREVER);
    FAILS(TERRACE_INVALID, terrace_put_for(plain, TERRACE_STR("a"), TERRACE_STR("1"), 1, E));
    FAILS(TERRACE_INVALID, terrace_put_until(map, TERRACE_STR("a"), TERRACE_STR("1"), late, 17, E));
    FAILS(TERRACE_INVALID, terrace_expires(map, TERRACE_STR("a"), NULL, E));
    FAILS(TERRACE_CLOSED, terrace_put_for(NULL, TERRACE_STR("a"), TERRACE_STR("1"), 1, E));
    FAILS(TERRACE_CLOSED, terrace_batch_put_until(NULL, map, TERRACE_STR("a"), TERRACE_STR("1"), 1, E));
    terrace_changes_close(changes);
}

/* The keys of a range, one behind the other. */
static void keys(terrace_map *map, bool reverse, char *into) {
    terrace_cursor *cursor = NULL;
    terrace_slice key, value;
    OK(terrace_range(map, NULL, NULL, reverse, &cursor, E));
    for (;;) {
        OK(terrace_cursor_next(cursor, &key, &value, E));
        if (key.data == NULL) break;
        memcpy(into, key.data, key.len);
        into += key.len;
    }
    *into = 0;
    terrace_cursor_close(cursor);
}

/* From its time on nobody sees a record, by whichever way, and another one can take its place. */
static void gone(terrace_db *db, terrace_status (*open)(terrace_db *, const char *, const terrace_map_options *, terrace_map **,
                                                       terrace_error **), const char *name) {
    terrace_map_options options = TERRACE_MAP_OPTIONS_INIT;
    terrace_map *map = NULL;
    terrace_slice two[2];
    terrace_bytes found[2];
    bool made = false;
    char all[8];
    options.expiring = 1;
    OK(open(db, name, &options, &map, E));
    put(map, "a", "1");
    OK(terrace_put_for(map, TERRACE_STR("b"), TERRACE_STR("2"), 20, E));
    OK(terrace_put_until(map, TERRACE_STR("c"), TERRACE_STR("3"), late, 0, E));
    while (until(map, "b") != 0) {
        const struct timespec moment = {0, 1000000};
        nanosleep(&moment, NULL);
    }
    keys(map, false, all);
    CHECK(strcmp(all, "ac") == 0);
    keys(map, true, all);
    CHECK(strcmp(all, "ca") == 0);
    two[0] = TERRACE_STR("b");
    two[1] = TERRACE_STR("c");
    OK(terrace_get_many(map, two, 2, found, E));
    CHECK(found[0].data == NULL && is(found[1], "3"));
    terrace_bytes_free(&found[1]);
    CHECK(has(map, "b", NULL));
    OK(terrace_insert(map, TERRACE_STR("b"), TERRACE_STR("4"), 0, &made, E));
    CHECK(made && until(map, "b") == TERRACE_FOREVER);
}

int main(int count, char **arguments) {
    terrace_db *db;
    CHECK(count == 2);
    db = opened(arguments[1], "db");
    leases(db);
    gone(db, terrace_tree, "tree");
    gone(db, terrace_lsm, "lsm");
    gone(db, terrace_table, "table");
    OK(terrace_close(db, E));
    return 0;
}
