/* Single records of all structures: looking up, writing, changing. */
#include "check.h"

static void all_of(terrace_map *map) {
    terrace_bytes value, values[3];
    terrace_slice keys[3], expected, after;
    terrace_merge_op op;
    uint8_t buffer[4];
    size_t len = 0;
    uint64_t records = 0;
    bool done = false;

    put(map, "alice", "Berlin");
    CHECK(has(map, "alice", "Berlin") && has(map, "bob", NULL));
    put(map, "", "empty key");
    put(map, "empty value", "");
    CHECK(has(map, "", "empty key") && has(map, "empty value", ""));
    OK(terrace_put_with(map, TERRACE_STR("bob"), terrace_slice_of("a\0b", 3), TERRACE_SYNC, E));
    OK(terrace_get(map, TERRACE_STR("bob"), &value, E));
    CHECK(value.len == 3 && memcmp(value.data, "a\0b", 4) == 0);
    terrace_bytes_free(&value);
    terrace_bytes_free(&value);

    OK(terrace_get_into(map, TERRACE_STR("bob"), buffer, sizeof buffer, &len, E));
    CHECK(len == 3 && memcmp(buffer, "a\0b", 3) == 0);
    memset(buffer, 7, sizeof buffer);
    OK(terrace_get_into(map, TERRACE_STR("alice"), buffer, sizeof buffer, &len, E));
    CHECK(len == 6 && buffer[0] == 7);
    OK(terrace_get_into(map, TERRACE_STR("alice"), NULL, 0, &len, E));
    CHECK(len == 6);
    OK(terrace_get_into(map, TERRACE_STR("nobody"), buffer, sizeof buffer, &len, E));
    CHECK(len == TERRACE_NONE);

    keys[0] = TERRACE_STR("alice");
    keys[1] = TERRACE_STR("nobody");
    keys[2] = TERRACE_STR("empty value");
    OK(terrace_get_many(map, keys, 3, values, E));
    CHECK(is(values[0], "Berlin") && values[1].data == NULL && is(values[2], ""));
    terrace_bytes_free(&values[0]);
    terrace_bytes_free(&values[1]);
    terrace_bytes_free(&values[2]);
    OK(terrace_get_many(map, NULL, 0, NULL, E));

    OK(terrace_contains(map, TERRACE_STR("alice"), &done, E));
    CHECK(done);
    OK(terrace_insert(map, TERRACE_STR("alice"), TERRACE_STR("Rome"), 0, &done, E));
    CHECK(!done && has(map, "alice", "Berlin"));
    OK(terrace_insert(map, TERRACE_STR("carol"), TERRACE_STR("Rome"), 0, NULL, E));
    OK(terrace_remove(map, TERRACE_STR("carol"), 0, &value, E));
    CHECK(is(value, "Rome"));
    terrace_bytes_free(&value);
    OK(terrace_remove(map, TERRACE_STR("carol"), 0, &value, E));
    CHECK(value.data == NULL);
    OK(terrace_delete(map, TERRACE_STR("bob"), E));
    OK(terrace_delete_with(map, TERRACE_STR("bob"), TERRACE_SYNC, E));
    CHECK(has(map, "bob", NULL));

    memset(&op, 0, sizeof op);
    op.kind = TERRACE_ADD_UNSIGNED;
    op.number = 5;
    OK(terrace_merge(map, TERRACE_STR("n"), &op, 0, &done, E));
    OK(terrace_merge(map, TERRACE_STR("n"), &op, 0, NULL, E));
    OK(terrace_get(map, TERRACE_STR("n"), &value, E));
    CHECK(done && value.len == 8 && value.data[7] == 10 && value.data[0] == 0);
    terrace_bytes_free(&value);
    op.kind = TERRACE_ADD;
    OK(terrace_merge(map, TERRACE_STR("signed"), &op, 0, NULL, E));
    OK(terrace_get(map, TERRACE_STR("signed"), &value, E));
    CHECK(value.data[7] == 5 && value.data[0] == 0x80);
    terrace_bytes_free(&value);
    op.value = TERRACE_STR(", Paris");
    op.kind = TERRACE_APPEND;
    OK(terrace_merge(map, TERRACE_STR("alice"), &op, 0, NULL, E));
    CHECK(has(map, "alice", "Berlin, Paris"));
    op.limit = 14;
    FAILS(TERRACE_INVALID, terrace_merge(map, TERRACE_STR("alice"), &op, 0, NULL, E));
    op.kind = TERRACE_SET_IF_ABSENT;
    OK(terrace_merge(map, TERRACE_STR("alice"), &op, 0, &done, E));
    CHECK(!done);
    op.kind = TERRACE_MIN;
    OK(terrace_merge(map, TERRACE_STR("alice"), &op, 0, &done, E));
    CHECK(done && has(map, "alice", ", Paris"));
    op.kind = TERRACE_MAX;
    op.value = TERRACE_STR("Oslo");
    OK(terrace_merge(map, TERRACE_STR("alice"), &op, 0, &done, E));
    op.kind = 77;
    FAILS(TERRACE_INVALID, terrace_merge(map, TERRACE_STR("alice"), &op, 0, NULL, E));

    expected = TERRACE_STR("Oslo");
    after = TERRACE_STR("Lima");
    OK(terrace_compare_and_set(map, TERRACE_STR("alice"), &expected, &after, 0, &done, E));
    CHECK(done && has(map, "alice", "Lima"));
    OK(terrace_compare_and_set(map, TERRACE_STR("alice"), &expected, NULL, 0, &done, E));
    CHECK(!done && has(map, "alice", "Lima"));
    OK(terrace_compare_and_set(map, TERRACE_STR("dave"), NULL, &after, 0, &done, E));
    CHECK(done && has(map, "dave", "Lima"));
    OK(terrace_compare_and_set(map, TERRACE_STR("dave"), &after, NULL, 0, NULL, E));
    CHECK(has(map, "dave", NULL));
    OK(terrace_map_estimate(map, &records, E));
    CHECK(records > 0 && records < 10);
}

int main(int count, char **arguments) {
    const char *names[] = {"tree", "hash", "table", "lsm"};
    terrace_options options = TERRACE_OPTIONS_INIT;
    terrace_map_options map_options = TERRACE_MAP_OPTIONS_INIT;
    terrace_map *maps[4], *again = NULL;
    terrace_kind kind;
    terrace_bytes text;
    terrace_db *db;
    int i;
    CHECK(count == 2);
    CHECK(strcmp(terrace_version(), "") > 0);
    db = opened(arguments[1], "db");
    OK(terrace_tree(db, "tree", NULL, &maps[0], E));
    map_options.tiers = 1;
    OK(terrace_hash(db, "hash", &map_options, &maps[1], E));
    map_options.tiers = 2;
    map_options.inclusive = TERRACE_NO;
    OK(terrace_table(db, "table", &map_options, &maps[2], E));
    map_options.inclusive = TERRACE_EITHER;
    map_options.compressed_levels = 2;
    OK(terrace_lsm(db, "lsm", &map_options, &maps[3], E));
    for (i = 0; i < 4; i++) {
        all_of(maps[i]);
        OK(terrace_map_kind(maps[i], &kind, E));
        CHECK((int)kind == i + 1);
        OK(terrace_map_name(maps[i], &text, E));
        CHECK(is(text, names[i]));
        terrace_bytes_free(&text);
    }
    FAILS(TERRACE_INVALID, terrace_hash(db, "tree", NULL, &again, E));
    FAILS(TERRACE_NO_SUCH_STRUCTURE, terrace_map_open(db, "none", &again, E));
    OK(terrace_map_open(db, "hash", &again, E));
    CHECK(has(again, "alice", "Lima"));
    terrace_map_close(again);
    terrace_map_close(again);
    OK(terrace_rename(db, "hash", "other", E));
    OK(terrace_drop(db, "lsm", E));
    FAILS(TERRACE_NO_SUCH_STRUCTURE, terrace_put(maps[3], TERRACE_STR("k"), TERRACE_STR("v"), E));
    OK(terrace_structures(db, &text, E));
    CHECK(says(&text, "\"other\""));
    OK(terrace_close(db, E));

    /* What was written is there again, to be read only. */
    options.memory_bytes = 16 << 20;
    options.read_only = 1;
    OK(terrace_open(below(arguments[1], "db"), &options, &db, E));
    OK(terrace_map_open(db, "other", &again, E));
    CHECK(has(again, "alice", "Lima"));
    FAILS(TERRACE_INVALID, terrace_put(again, TERRACE_STR("k"), TERRACE_STR("v"), E));
    OK(terrace_close(db, E));
    return 0;
}
