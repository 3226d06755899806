/* The changes of a database, commit by commit, and what removes whole ranges. */
#include "check.h"

static terrace_slice of(const terrace_bytes *bytes) {
    return terrace_slice_of(bytes->data, bytes->len);
}

/* The next commit; it has to come. */
static terrace_bytes next(terrace_changes *changes) {
    terrace_bytes commit;
    bool ended = true;
    OK(terrace_changes_next(changes, TERRACE_FOREVER, &commit, &ended, E));
    CHECK(commit.data != NULL && !ended);
    return commit;
}

/* The single change of the next commit. */
static void single(terrace_changes *changes, uint32_t what, const char *name, const char *key) {
    terrace_bytes commit = next(changes);
    terrace_change change;
    size_t at = TERRACE_COMMIT_HEAD;
    CHECK(terrace_commit_next(of(&commit), &at, &change));
    CHECK(change.what == what && same(change.name, name));
    CHECK(key == NULL ? change.key.data == NULL : same(change.key, key));
    CHECK((change.time_ms > 0) == (what == TERRACE_CHANGE_MARKED));
    CHECK(!terrace_commit_next(of(&commit), &at, &change) && at == commit.len);
    terrace_bytes_free(&commit);
}

static int stop_at_once(const char *work, uint64_t done, uint64_t total, void *context) {
    CHECK(strcmp(work, "remove") == 0 && total == 0);
    *(uint64_t *)context = done;
    return 1;
}

static void removes(terrace_db *db) {
    terrace_remove_options options = TERRACE_REMOVE_OPTIONS_INIT;
    terrace_map *map = tree(db, "ranges"), *hash = NULL;
    terrace_slice from = TERRACE_STR("0010"), to = TERRACE_STR("0020");
    uint64_t removed = 0, told = 0;
    char key[8];
    int i;
    for (i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "%04d", i);
        put(map, key, "v");
    }
    OK(terrace_remove_range(map, &from, &to, NULL, &removed, E));
    CHECK(removed == 10 && has(map, "0009", "v") && has(map, "0010", NULL) && has(map, "0020", "v"));
    options.durability = TERRACE_SYNC;
    OK(terrace_remove_prefix(map, TERRACE_STR("1"), &options, &removed, E));
    CHECK(removed == 1000 && has(map, "0999", "v") && has(map, "1000", NULL) && has(map, "2000", "v"));
    options.progress = stop_at_once;
    options.context = &told;
    FAILS(TERRACE_CANCELLED, terrace_remove_range(map, NULL, NULL, &options, &removed, E));
    CHECK(told > 0 && told < 1990 && has(map, "0000", NULL) && has(map, "2999", "v"));
    OK(terrace_remove_range(map, NULL, NULL, NULL, NULL, E));
    CHECK(has(map, "2999", NULL));
    options.durability = 3;
    FAILS(TERRACE_INVALID, terrace_remove_range(map, NULL, NULL, &options, NULL, E));
    options.size = 4096;
    FAILS(TERRACE_INVALID, terrace_remove_range(map, NULL, NULL, &options, NULL, E));
    OK(terrace_hash(db, "hash", NULL, &hash, E));
    FAILS(TERRACE_INVALID, terrace_remove_prefix(hash, TERRACE_STR("a"), NULL, NULL, E));
}

int main(int count, char **arguments) {
    terrace_changes_options options = TERRACE_CHANGES_OPTIONS_INIT;
    terrace_changes *changes = NULL, *again = NULL;
    terrace_snapshot *snapshot = NULL;
    terrace_batch *batch = NULL;
    terrace_map *map, *then = NULL;
    terrace_change change;
    terrace_bytes commit, none, place;
    uint64_t sequence = 0;
    bool ended = true;
    size_t at = TERRACE_COMMIT_HEAD, cut;
    terrace_db *db;
    CHECK(count == 2);
    db = opened(arguments[1], "db");
    map = tree(db, "users");
    put(map, "before", "1");

    OK(terrace_changes_with_snapshot(db, NULL, &changes, &snapshot, E));
    OK(terrace_changes_next(changes, 0, &none, &ended, E));
    CHECK(none.data == NULL && !ended);
    OK(terrace_batch_create(db, &batch, E));
    OK(terrace_batch_put(batch, map, TERRACE_STR("a"), TERRACE_STR("2"), E));
    OK(terrace_batch_put(batch, map, TERRACE_STR("b"), TERRACE_STR(""), E));
    OK(terrace_batch_delete(batch, map, TERRACE_STR("a"), E));
    OK(terrace_write(db, batch, 0, E));
    terrace_batch_destroy(batch);
    OK(terrace_snapshot_map(snapshot, "users", &then, E));
    CHECK(has(then, "before", "1") && has(then, "b", NULL));
    terrace_release_snapshot(snapshot);

    commit = next(changes);
    OK(terrace_sequence(db, &sequence, E));
    CHECK(terrace_commit_sequence(of(&commit)) == sequence);
    CHECK(terrace_commit_next(of(&commit), &at, &change));
    CHECK(change.what == TERRACE_CHANGE_PUT && change.kind == TERRACE_TREE && same(change.name, "users"));
    CHECK(same(change.key, "a") && same(change.value, "2") && change.structure != 0);
    CHECK(terrace_commit_next(of(&commit), &at, &change));
    CHECK(same(change.key, "b") && change.value.data != NULL && change.value.len == 0);
    CHECK(terrace_commit_next(of(&commit), &at, &change));
    CHECK(change.what == TERRACE_CHANGE_DELETE && same(change.key, "a") && change.value.data == NULL);
    CHECK(!terrace_commit_next(of(&commit), &at, &change));
    /* From the place behind it another reader goes on, up to now. */
    options.from = terrace_commit_place(of(&commit));
    options.until_now = 1;
    CHECK(strlen(options.from) == 64);
    put(map, "c", "3");
    OK(terrace_changes_begin(db, &options, &again, E));
    single(again, TERRACE_CHANGE_PUT, "users", "c");
    OK(terrace_changes_next(again, TERRACE_FOREVER, &none, &ended, E));
    CHECK(none.data == NULL && ended);
    terrace_bytes_free(&commit);
    terrace_changes_close(again);
    terrace_changes_close(again);
    FAILS(TERRACE_CLOSED, terrace_changes_next(again, 0, &none, NULL, E));

    single(changes, TERRACE_CHANGE_PUT, "users", "c");
    OK(terrace_mark(db, "noon", NULL, E));
    single(changes, TERRACE_CHANGE_MARKED, "noon", NULL);
    (void)tree(db, "made");
    single(changes, TERRACE_CHANGE_CREATED, "made", NULL);
    OK(terrace_drop(db, "made", E));
    single(changes, TERRACE_CHANGE_DROPPED, "made", NULL);
    OK(terrace_changes_place(changes, &place, E));
    CHECK(place.len == 64);
    terrace_bytes_free(&place);

    /* Places that are none, and bytes that are no commit, cut off in room of just that length. */
    options.from = "nowhere";
    FAILS(TERRACE_INVALID, terrace_changes_begin(db, &options, &again, E));
    options.from = "0000000000000000000000000000000000000000000000000000000000000000";
    FAILS(TERRACE_CHANGES_GONE, terrace_changes_begin(db, &options, &again, E));
    put(map, "d", "4");
    commit = next(changes);
    for (cut = 0; cut < commit.len; cut++) {
        uint8_t *room = (uint8_t *)malloc(cut ? cut : 1);
        memcpy(room, commit.data, cut);
        at = TERRACE_COMMIT_HEAD;
        CHECK(!terrace_commit_next(terrace_slice_of(room, cut), &at, &change));
        if (cut < TERRACE_COMMIT_HEAD) {
            CHECK(terrace_commit_place(terrace_slice_of(room, cut)) == NULL);
            CHECK(terrace_commit_sequence(terrace_slice_of(room, cut)) == 0);
        }
        free(room);
    }
    at = SIZE_MAX;
    CHECK(!terrace_commit_next(of(&commit), &at, &change));
    CHECK(!terrace_commit_next(of(&commit), NULL, &change));
    terrace_bytes_free(&commit);
    FAILS(TERRACE_INVALID, terrace_changes_next(changes, 0, NULL, NULL, E));
    FAILS(TERRACE_INVALID, terrace_changes_begin(db, NULL, NULL, E));
    terrace_changes_close(NULL);

    removes(db);
    OK(terrace_close(db, E));
    FAILS(TERRACE_CLOSED, terrace_changes_next(changes, 0, &none, NULL, E));
    return 0;
}
