/* Several changes as one: batches, encoded batches, loaders. */
#include "check.h"

int main(int count, char **arguments) {
    /* A put of k=v and a delete of "old" in the first structure, a put of k=w in the second. */
    const uint8_t encoded[] = {3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'k', 1, 'v', 1, 0, 0, 0, 0, 3,
                               'o', 'l', 'd', 0, 1, 0, 0, 0, 1, 'k', 1, 'w'};
    terrace_map *maps[2];
    terrace_batch *batch = NULL;
    terrace_loader *loader = NULL;
    terrace_merge_op op;
    terrace_slice expected = TERRACE_STR("2");
    size_t changes = 0, cut;
    uint64_t records = 0;
    terrace_db *db;
    int i;
    CHECK(count == 2);
    db = opened(arguments[1], "db");
    maps[0] = tree(db, "first");
    maps[1] = tree(db, "second");
    put(maps[0], "old", "1");

    OK(terrace_batch_create(db, &batch, E));
    OK(terrace_batch_put(batch, maps[0], TERRACE_STR("a"), TERRACE_STR("2"), E));
    OK(terrace_batch_put(batch, maps[1], TERRACE_STR("a"), TERRACE_STR("2"), E));
    OK(terrace_batch_delete(batch, maps[0], TERRACE_STR("old"), E));
    memset(&op, 0, sizeof op);
    op.kind = TERRACE_APPEND;
    op.value = TERRACE_STR("!");
    OK(terrace_batch_merge(batch, maps[1], TERRACE_STR("a"), &op, E));
    OK(terrace_batch_compare_and_set(batch, maps[0], TERRACE_STR("a"), &expected, NULL, E));
    OK(terrace_batch_count(batch, &changes, E));
    CHECK(changes == 5 && has(maps[0], "old", "1"));
    OK(terrace_write(db, batch, TERRACE_SYNC, E));
    CHECK(has(maps[0], "a", NULL) && has(maps[1], "a", "2!") && has(maps[0], "old", NULL));
    OK(terrace_batch_count(batch, &changes, E));
    CHECK(changes == 0);
    OK(terrace_batch_put(batch, maps[0], TERRACE_STR("x"), TERRACE_STR("y"), E));
    OK(terrace_batch_clear(batch, E));
    OK(terrace_write(db, batch, 0, E));
    CHECK(has(maps[0], "x", NULL));
    /* What does not fit is told at the end, and nothing is done. */
    OK(terrace_batch_put(batch, maps[0], TERRACE_STR("x"), TERRACE_STR("y"), E));
    OK(terrace_batch_merge(batch, maps[1], TERRACE_STR("a"), (op.limit = 1, &op), E));
    FAILS(TERRACE_INVALID, terrace_write(db, batch, 0, E));
    CHECK(has(maps[0], "x", NULL));
    terrace_batch_destroy(batch);
    terrace_batch_destroy(batch);
    FAILS(TERRACE_CLOSED, terrace_write(db, batch, 0, E));

    put(maps[0], "old", "1");
    for (cut = 0; cut < sizeof encoded; cut++) {
        /* Room of exactly that length, so that a look behind it is seen. */
        uint8_t *room = (uint8_t *)malloc(cut ? cut : 1);
        memcpy(room, encoded, cut);
        FAILS(TERRACE_INVALID,
              terrace_write_encoded(db, maps, 2, terrace_slice_of(room, cut), 0, E));
        free(room);
    }
    FAILS(TERRACE_INVALID,
          terrace_write_encoded(db, maps, 1, terrace_slice_of(encoded, sizeof encoded), 0, E));
    CHECK(has(maps[0], "k", NULL) && has(maps[0], "old", "1"));
    OK(terrace_write_encoded(db, maps, 2, terrace_slice_of(encoded, sizeof encoded), TERRACE_SYNC, E));
    CHECK(has(maps[0], "k", "v") && has(maps[0], "old", NULL) && has(maps[1], "k", "w"));

    OK(terrace_loader_create(maps[0], &loader, E));
    for (i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i * 7919 % 5000);
        OK(terrace_loader_put(loader, TERRACE_STR(key), TERRACE_STR("loaded"), E));
    }
    OK(terrace_loader_finish(loader, TERRACE_SYNC, &records, E));
    CHECK(records == 5000 && has(maps[0], "4999", "loaded"));
    FAILS(TERRACE_CLOSED, terrace_loader_finish(loader, 0, NULL, E));
    OK(terrace_loader_create(maps[0], &loader, E));
    OK(terrace_loader_put(loader, TERRACE_STR("given up"), TERRACE_STR(""), E));
    terrace_loader_destroy(loader);
    terrace_loader_destroy(loader);
    CHECK(has(maps[0], "given up", NULL));
    OK(terrace_close(db, E));
    return 0;
}
