/* Users by name: written, looked up, gone through, changed together and moved in a transaction. */
#include <stdio.h>
#include <stdlib.h>
#include <terrace.h>

/* Ends the program with what went wrong. */
static void check(terrace_status status, terrace_error *error) {
    if (status != TERRACE_OK) {
        fprintf(stderr, "%s: %s\n", terrace_status_name(status), terrace_error_message(error));
        exit(1);
    }
}

/* Swaps two values. It runs again if somebody else changes one of them meanwhile. */
static uint32_t swap(terrace_transaction *transaction, void *context) {
    terrace_map *users = (terrace_map *)context;
    terrace_bytes alice, bob;
    terrace_status status;
    status = terrace_transaction_get(transaction, users, TERRACE_STR("alice"), &alice, NULL);
    if (status != TERRACE_OK) return status;
    status = terrace_transaction_get(transaction, users, TERRACE_STR("bob"), &bob, NULL);
    if (status == TERRACE_OK) {
        status = terrace_transaction_put(transaction, users, TERRACE_STR("alice"),
                                         terrace_slice_of(bob.data, bob.len), NULL);
    }
    if (status == TERRACE_OK) {
        status = terrace_transaction_put(transaction, users, TERRACE_STR("bob"),
                                         terrace_slice_of(alice.data, alice.len), NULL);
    }
    terrace_bytes_free(&alice);
    terrace_bytes_free(&bob);
    return status;
}

int main(int count, char **arguments) {
    terrace_options options = TERRACE_OPTIONS_INIT;
    terrace_error *error = NULL;
    terrace_db *db;
    terrace_map *users;
    terrace_batch *batch;
    terrace_cursor *cursor;
    terrace_slice key, value;
    terrace_bytes city;
    if (count != 2) return 2;
    options.memory_bytes = 64 << 20;
    check(terrace_open(arguments[1], &options, &db, &error), error);
    check(terrace_tree(db, "users", NULL, &users, &error), error);
    check(terrace_put(users, TERRACE_STR("alice"), TERRACE_STR("Berlin"), &error), error);
    check(terrace_get(users, TERRACE_STR("alice"), &city, &error), error);
    if (city.data != NULL) printf("alice lives in %s\n", (const char *)city.data);
    terrace_bytes_free(&city);

    check(terrace_batch_create(db, &batch, &error), error);
    check(terrace_batch_put(batch, users, TERRACE_STR("bob"), TERRACE_STR("Rome"), &error), error);
    check(terrace_batch_put(batch, users, TERRACE_STR("carol"), TERRACE_STR("Oslo"), &error), error);
    check(terrace_write(db, batch, TERRACE_SYNC, &error), error);
    terrace_batch_destroy(batch);
    check(terrace_transact(db, NULL, swap, users, &error), error);

    check(terrace_range(users, NULL, NULL, false, &cursor, &error), error);
    for (;;) {
        check(terrace_cursor_next(cursor, &key, &value, &error), error);
        if (key.data == NULL) break;
        printf("%.*s: %.*s\n", (int)key.len, (const char *)key.data, (int)value.len,
               (const char *)value.data);
    }
    terrace_cursor_close(cursor);
    check(terrace_close(db, &error), error);
    return 0;
}
