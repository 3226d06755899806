/* Transactions by hand and as functions, and snapshots. */
#include "check.h"

struct asked {
    terrace_db *db;
    terrace_map *map;
    terrace_transaction *last;
    int attempts;
    uint32_t answer;
};

static uint32_t copied(terrace_transaction *transaction, void *context) {
    struct asked *asked = (struct asked *)context;
    terrace_bytes value;
    asked->attempts++;
    asked->last = transaction;
    OK(terrace_transaction_get(transaction, asked->map, TERRACE_STR("k"), &value, E));
    FAILS(TERRACE_INVALID, terrace_commit(transaction, NULL, E));
    OK(terrace_transaction_put(transaction, asked->map, TERRACE_STR("copy"),
                               terrace_slice_of(value.data, value.len), E));
    terrace_bytes_free(&value);
    /* The last: calls of a transaction that can no longer be committed may say so at once. */
    if (asked->attempts == 1) put(asked->map, "k", "newer");
    return asked->answer;
}

static uint32_t read_only(terrace_transaction *transaction, void *context) {
    struct asked *asked = (struct asked *)context;
    terrace_bytes value;
    OK(terrace_transaction_get(transaction, asked->map, TERRACE_STR("k"), &value, E));
    terrace_bytes_free(&value);
    return terrace_transaction_put(transaction, asked->map, TERRACE_STR("k"), TERRACE_STR(""), NULL);
}

static uint32_t closes(terrace_transaction *transaction, void *context) {
    struct asked *asked = (struct asked *)context;
    OK(terrace_transaction_put(transaction, asked->map, TERRACE_STR("k"), TERRACE_STR("no"), E));
    OK(terrace_close(asked->db, E));
    FAILS(TERRACE_CLOSED, terrace_transaction_put(transaction, asked->map, TERRACE_STR("k"),
                                                  TERRACE_STR("no"), E));
    return TERRACE_OK;
}

static void snapshots(terrace_db *db, terrace_map *map) {
    terrace_snapshot *snapshot = NULL, *shared = NULL;
    terrace_map *then = NULL, *none = NULL;
    terrace_cursor *cursor = NULL;
    terrace_slice key, value;
    terrace_bytes json;
    uint64_t time_ms = 0, sequence = 0;
    put(map, "k", "then");
    OK(terrace_create_snapshot(db, TERRACE_NOW, &snapshot, E));
    put(map, "k", "now");
    OK(terrace_snapshot_map(snapshot, "tree", &then, E));
    CHECK(has(then, "k", "then") && has(map, "k", "now"));
    FAILS(TERRACE_INVALID, terrace_put(then, TERRACE_STR("k"), TERRACE_STR("v"), E));
    FAILS(TERRACE_NO_SUCH_STRUCTURE, terrace_snapshot_map(snapshot, "none", &none, E));
    OK(terrace_range(then, NULL, NULL, true, &cursor, E));
    OK(terrace_cursor_next(cursor, &key, &value, E));
    CHECK(same(key, "k") && same(value, "then"));
    OK(terrace_snapshot_structures(snapshot, &json, E));
    CHECK(says(&json, "\"tree\""));
    OK(terrace_snapshot_instant(snapshot, &time_ms, &sequence, E));
    CHECK(time_ms > 0 && sequence > 0);
    OK(terrace_create_snapshot(db, 3600 * 1000, &shared, E));
    terrace_release_snapshot(shared);
    terrace_release_snapshot(snapshot);
    terrace_release_snapshot(snapshot);
    FAILS(TERRACE_CLOSED, terrace_cursor_next(cursor, &key, &value, E));
    FAILS(TERRACE_CLOSED, terrace_put(then, TERRACE_STR("k"), TERRACE_STR("v"), E));
    FAILS(TERRACE_CLOSED, terrace_snapshot_instant(snapshot, NULL, NULL, E));
}

int main(int count, char **arguments) {
    terrace_transaction_options options = TERRACE_TRANSACTION_OPTIONS_INIT;
    terrace_transaction *transaction = NULL;
    terrace_cursor *cursor = NULL;
    terrace_slice key, value, keys[2];
    terrace_bytes found, values[2];
    uint64_t sequence = 0;
    bool done = true;
    struct asked asked;
    terrace_merge_op op;
    CHECK(count == 2);
    memset(&asked, 0, sizeof asked);
    asked.db = opened(arguments[1], "db");
    asked.map = tree(asked.db, "tree");
    put(asked.map, "k", "old");

    options.durability = TERRACE_SYNC;
    options.label = "copies";
    OK(terrace_transact(asked.db, &options, copied, &asked, E));
    CHECK(asked.attempts == 2 && has(asked.map, "copy", "newer"));
    FAILS(TERRACE_CLOSED, terrace_transaction_delete(asked.last, asked.map, TERRACE_STR("k"), E));
    put(asked.map, "k", "newest");
    asked.answer = TERRACE_ABORTED;
    FAILS(TERRACE_ABORTED, terrace_transact(asked.db, NULL, copied, &asked, E));
    asked.answer = 4711;
    FAILS(TERRACE_ABORTED, terrace_transact(asked.db, NULL, copied, &asked, E));
    asked.answer = TERRACE_DISK_FULL;
    FAILS(TERRACE_DISK_FULL, terrace_transact(asked.db, NULL, copied, &asked, E));
    CHECK(has(asked.map, "copy", "newer"));
    FAILS(TERRACE_INVALID, terrace_transact(asked.db, NULL, NULL, NULL, E));
    FAILS(TERRACE_INVALID, terrace_read(asked.db, NULL, read_only, &asked, E));

    OK(terrace_begin(asked.db, NULL, &transaction, E));
    keys[0] = TERRACE_STR("copy");
    keys[1] = TERRACE_STR("none");
    OK(terrace_transaction_get_many(transaction, asked.map, keys, 2, values, E));
    CHECK(is(values[0], "newer") && values[1].data == NULL);
    terrace_bytes_free(&values[0]);
    OK(terrace_transaction_get_unchecked(transaction, asked.map, TERRACE_STR("k"), &found, E));
    terrace_bytes_free(&found);
    OK(terrace_transaction_insert(transaction, asked.map, TERRACE_STR("k"), TERRACE_STR("x"), &done, E));
    CHECK(!done);
    OK(terrace_transaction_remove(transaction, asked.map, TERRACE_STR("copy"), &found, E));
    CHECK(is(found, "newer"));
    terrace_bytes_free(&found);
    OK(terrace_transaction_put(transaction, asked.map, TERRACE_STR("own"), TERRACE_STR("1"), E));
    memset(&op, 0, sizeof op);
    op.kind = TERRACE_APPEND;
    op.value = TERRACE_STR("2");
    OK(terrace_transaction_merge(transaction, asked.map, TERRACE_STR("own"), &op, E));
    OK(terrace_transaction_range(transaction, asked.map, NULL, NULL, true, &cursor, E));
    OK(terrace_cursor_next(cursor, &key, &value, E));
    CHECK(same(key, "own") && same(value, "12"));
    OK(terrace_cursor_next(cursor, &key, &value, E));
    CHECK(same(key, "k"));
    OK(terrace_commit(transaction, &sequence, E));
    CHECK(sequence > 0 && has(asked.map, "own", "12") && has(asked.map, "copy", NULL));
    FAILS(TERRACE_CLOSED, terrace_commit(transaction, NULL, E));
    terrace_abort(transaction);

    OK(terrace_begin(asked.db, NULL, &transaction, E));
    OK(terrace_transaction_get(transaction, asked.map, TERRACE_STR("own"), &found, E));
    terrace_bytes_free(&found);
    OK(terrace_transaction_delete(transaction, asked.map, TERRACE_STR("k"), E));
    put(asked.map, "own", "other");
    FAILS(TERRACE_CONFLICT, terrace_commit(transaction, NULL, E));
    CHECK(has(asked.map, "k", "newest"));
    OK(terrace_begin(asked.db, NULL, &transaction, E));
    OK(terrace_transaction_delete(transaction, asked.map, TERRACE_STR("k"), E));
    terrace_abort(transaction);
    CHECK(has(asked.map, "k", "newest"));
    OK(terrace_drop(asked.db, "tree", E));
    asked.map = tree(asked.db, "tree");
    snapshots(asked.db, asked.map);
    FAILS(TERRACE_CLOSED, terrace_transact(asked.db, NULL, closes, &asked, E));
    asked.db = opened(arguments[1], "db");
    CHECK(has(tree(asked.db, "tree"), "k", "now"));
    OK(terrace_close(asked.db, E));
    return 0;
}
