/* Backups with progress, following, marks, restoring; compacting, verifying, figures. */
#include "check.h"

struct told {
    int times;
    int stop;
    char work[32];
};

static int tell(const char *work, uint64_t done, uint64_t total, void *context) {
    struct told *told = (struct told *)context;
    told->times++;
    snprintf(told->work, sizeof told->work, "%s", work);
    (void)done, (void)total;
    return told->stop;
}

int main(int count, char **arguments) {
    terrace_backup_options backup = TERRACE_BACKUP_OPTIONS_INIT;
    terrace_restore_options restore = TERRACE_RESTORE_OPTIONS_INIT;
    terrace_follow_options follow = TERRACE_FOLLOW_OPTIONS_INIT;
    struct told told;
    terrace_follower *follower = NULL;
    terrace_bytes json;
    uint64_t mark = 0, archived = 0, sequence = 0;
    const char *set;
    char sets[4096];
    terrace_db *db, *again;
    terrace_map *map;
    int i;
    CHECK(count == 2);
    memset(&told, 0, sizeof told);
    snprintf(sets, sizeof sets, "%s/set", arguments[1]);
    set = sets;
    db = opened(arguments[1], "db");
    map = tree(db, "tree");
    for (i = 0; i < 2000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        put(map, key, "first");
    }
    backup.rate = TERRACE_FAST;
    backup.mark = "begin";
    backup.progress = tell;
    backup.context = &told;
    OK(terrace_backup(db, set, &backup, &json, E));
    CHECK(says(&json, "\"point\":1") && told.times > 0 && strcmp(told.work, "backup") == 0);
    told.stop = 1;
    backup.full = 1;
    FAILS(TERRACE_CANCELLED, terrace_backup(db, set, &backup, &json, E));
    told.stop = 0;

    follow.every_ms = 3600 * 1000;
    OK(terrace_follow(db, set, &follow, &follower, E));
    put(map, "0", "second");
    OK(terrace_mark(db, "before", &mark, E));
    put(map, "0", "third");
    OK(terrace_follower_archive(follower, &archived, E));
    OK(terrace_sequence(db, &sequence, E));
    CHECK(mark > 0 && archived >= mark && sequence >= archived);
    OK(terrace_follower_status(follower, &json, E));
    CHECK(says(&json, "\"sequence\""));
    OK(terrace_follower_stop(follower, E));
    OK(terrace_follower_stop(follower, E));
    FAILS(TERRACE_CLOSED, terrace_follower_archive(follower, NULL, E));

    OK(terrace_backup_list(set, &json, E));
    CHECK(says(&json, "\"point\":1"));
    OK(terrace_backup_verify(set, tell, &told, &json, E));
    CHECK(says(&json, "\"problems\":[]"));
    restore.memory_bytes = 16 << 20;
    restore.mark = "before";
    restore.progress = tell;
    restore.context = &told;
    OK(terrace_restore(set, below(arguments[1], "then"), &restore, &json, E));
    terrace_bytes_free(&json);
    again = opened(arguments[1], "then");
    CHECK(has(tree(again, "tree"), "0", "second"));
    OK(terrace_close(again, E));
    restore.point = 1;
    FAILS(TERRACE_INVALID, terrace_restore(set, below(arguments[1], "both"), &restore, &json, E));
    restore.mark = NULL;
    restore.structure = "tree";
    restore.unverified = 1;
    OK(terrace_restore(set, below(arguments[1], "point"), &restore, &json, E));
    terrace_bytes_free(&json);
    again = opened(arguments[1], "point");
    CHECK(has(tree(again, "tree"), "0", "first"));
    OK(terrace_close(again, E));
    OK(terrace_backup_prune(set, 1, &json, E));
    CHECK(says(&json, "\"kept\""));

    OK(terrace_compact(db, TERRACE_FAST, tell, &told, &json, E));
    CHECK(says(&json, "\"pages_after\""));
    OK(terrace_verify(db, tell, &told, &json, E));
    CHECK(says(&json, "\"problems\":[]"));
    OK(terrace_stats(db, &json, E));
    CHECK(says(&json, "\"memory\""));
    OK(terrace_survey(db, &json, E));
    CHECK(says(&json, "\"tree\""));
    OK(terrace_stats_table(db, &json, E));
    CHECK(says(&json, "tree"));
    OK(terrace_metrics(db, false, &json, E));
    CHECK(says(&json, "terrace_memory_limit_bytes 16777216"));
    OK(terrace_metrics(db, true, &json, E));
    CHECK(says(&json, "# EOF"));
    OK(terrace_sync(db, E));
    OK(terrace_checkpoint(db, E));
    OK(terrace_close(db, E));
    return 0;
}
