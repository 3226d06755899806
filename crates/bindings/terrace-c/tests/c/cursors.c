/* Going through records both ways: ranges, prefixes, windows, indexes. */
#include "check.h"

static size_t counted(terrace_cursor *cursor, int descending) {
    char last[16] = "";
    size_t records = 0;
    terrace_slice key, value;
    for (;;) {
        OK(terrace_cursor_next(cursor, &key, &value, E));
        if (key.data == NULL) break;
        CHECK(key.len == 6 && value.len == 8);
        if (records > 0) CHECK(descending == (memcmp(last, key.data, 6) > 0));
        memcpy(last, key.data, 6);
        records++;
    }
    OK(terrace_cursor_next(cursor, &key, NULL, E));
    CHECK(key.data == NULL);
    terrace_cursor_close(cursor);
    return records;
}

static size_t in_windows(terrace_cursor *cursor, size_t most) {
    size_t records = 0, all = 0;
    do {
        terrace_bytes window;
        terrace_slice key, value;
        size_t at = TERRACE_WINDOW_HEAD, seen = 0;
        OK(terrace_cursor_window(cursor, most, &window, &records, E));
        CHECK(records <= 1 || window.len <= most);
        while (terrace_window_next(terrace_slice_of(window.data, window.len), &at, &key, &value)) {
            CHECK(key.len == 6 && value.len == 8);
            seen++;
        }
        CHECK(seen == records && at == window.len);
        /* A window cut anywhere is no more than what is there. */
        at = TERRACE_WINDOW_HEAD;
        CHECK(records == 0 || !terrace_window_next(terrace_slice_of(window.data, 20), &at, &key, &value));
        at = SIZE_MAX;
        CHECK(!terrace_window_next(terrace_slice_of(window.data, window.len), &at, &key, &value));
        terrace_bytes_free(&window);
        all += records;
    } while (records > 0);
    terrace_cursor_close(cursor);
    return all;
}

static void of_a_table(terrace_db *db) {
    const char *indexes[] = {"city=csv:2", "name=unique:csv:1"};
    terrace_map_options options = TERRACE_MAP_OPTIONS_INIT;
    terrace_map *table = NULL;
    terrace_index *city = NULL;
    terrace_cursor *rows = NULL;
    terrace_slice key, row, from;
    terrace_bytes json;
    options.indexes = indexes;
    options.index_count = 2;
    OK(terrace_table(db, "people", &options, &table, E));
    put(table, "1", "alice,Berlin");
    put(table, "2", "bob,Rome");
    put(table, "3", "carol,Berlin");
    FAILS(TERRACE_DUPLICATE, terrace_put(table, TERRACE_STR("4"), TERRACE_STR("bob,Oslo"), E));
    OK(terrace_index_open(table, "city", &city, E));
    OK(terrace_index_get(city, TERRACE_STR("Berlin"), &rows, E));
    OK(terrace_cursor_next(rows, &key, &row, E));
    CHECK(same(key, "1") && same(row, "alice,Berlin"));
    OK(terrace_cursor_next(rows, &key, &row, E));
    CHECK(same(key, "3"));
    OK(terrace_cursor_next(rows, &key, &row, E));
    CHECK(key.data == NULL);
    terrace_cursor_close(rows);
    from = TERRACE_STR("C");
    OK(terrace_index_range(city, &from, NULL, true, &rows, E));
    OK(terrace_cursor_next(rows, &key, &row, E));
    CHECK(same(key, "2") && same(row, "bob,Rome"));
    OK(terrace_index_keys(city, NULL, NULL, true, &rows, E));
    OK(terrace_cursor_next(rows, &key, &row, E));
    CHECK(same(key, "Rome") && same(row, "2"));
    OK(terrace_index_prefix(city, TERRACE_STR("B"), false, &rows, E));
    OK(terrace_cursor_next(rows, &key, NULL, E));
    CHECK(same(key, "1"));
    OK(terrace_create_index(table, "first=bytes:0..1", E));
    OK(terrace_drop_index(table, "name", E));
    OK(terrace_indexes(table, &json, E));
    CHECK(says(&json, "\"first\""));
    FAILS(TERRACE_INVALID, terrace_create_index(table, "nonsense", E));
    terrace_index_close(city);
    terrace_index_close(city);
    FAILS(TERRACE_CLOSED, terrace_index_get(city, TERRACE_STR("B"), &rows, E));
}

int main(int count, char **arguments) {
    terrace_db *db;
    terrace_map *map, *hash = NULL;
    terrace_cursor *cursor = NULL;
    terrace_slice from, to, key, value;
    int i;
    CHECK(count == 2);
    db = opened(arguments[1], "db");
    map = tree(db, "tree");
    for (i = 0; i < 3000; i++) {
        char name[16], text[16];
        snprintf(name, sizeof name, "%06d", i);
        snprintf(text, sizeof text, "%08d", i);
        put(map, name, text);
    }
    OK(terrace_range(map, NULL, NULL, false, &cursor, E));
    CHECK(counted(cursor, 0) == 3000);
    OK(terrace_range(map, NULL, NULL, true, &cursor, E));
    CHECK(counted(cursor, 1) == 3000);
    from = TERRACE_STR("000100");
    to = TERRACE_STR("000200");
    OK(terrace_range(map, &from, &to, true, &cursor, E));
    CHECK(counted(cursor, 1) == 100);
    OK(terrace_range(map, &to, &from, false, &cursor, E));
    CHECK(counted(cursor, 0) == 0);
    OK(terrace_prefix(map, TERRACE_STR("0010"), false, &cursor, E));
    CHECK(counted(cursor, 0) == 100);
    OK(terrace_unordered(map, &cursor, E));
    CHECK(in_windows(cursor, 1) == 3000);
    OK(terrace_range(map, NULL, NULL, true, &cursor, E));
    CHECK(in_windows(cursor, 500) == 3000);
    /* Some one by one, the others in windows. */
    OK(terrace_range(map, NULL, NULL, false, &cursor, E));
    for (i = 0; i < 10; i++) OK(terrace_cursor_next(cursor, &key, &value, E));
    CHECK(same(key, "000009") && same(value, "00000009"));
    CHECK(in_windows(cursor, 700) == 2990);

    OK(terrace_hash(db, "hash", NULL, &hash, E));
    put(hash, "abcdef", "01234567");
    FAILS(TERRACE_INVALID, terrace_range(hash, &from, NULL, false, &cursor, E));
    FAILS(TERRACE_INVALID, terrace_prefix(hash, from, false, &cursor, E));
    OK(terrace_range(hash, NULL, NULL, false, &cursor, E));
    CHECK(counted(cursor, 0) == 1);
    terrace_cursor_close(cursor);
    FAILS(TERRACE_CLOSED, terrace_cursor_next(cursor, &key, &value, E));
    of_a_table(db);
    OK(terrace_close(db, E));
    return 0;
}
