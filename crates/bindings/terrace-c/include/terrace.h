/* Terrace for C: an embedded, durable key-value engine. The guide is docs/c.md.

   Calls answer a terrace_status, 0 (TERRACE_OK) if all is well, and take a place for the details as their
   last argument, which may be NULL; what is stored there is given back with terrace_error_free. An answer
   that fails sets nothing else. Handles may be used by any thread, also by several at once; one that was
   closed is an error, as is one in the child of a fork. Pointers that may be NULL are said to be; others that
   are NULL are errors. All calls may wait for a disk.

   Made by cbindgen; do not change it by hand. */

#ifndef TERRACE_H
#define TERRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 What a call answers. Numbers stay; new ones may come.
 */
typedef enum {
    /*
     It did what it was to do.
     */
    TERRACE_OK = 0,
    /*
     A file holds something that Terrace did not write.
     */
    TERRACE_CORRUPT = 1,
    /*
     The operating system refused or failed an operation; see terrace_error_os.
     */
    TERRACE_IO = 2,
    /*
     No space is left on the device. Nothing was changed.
     */
    TERRACE_DISK_FULL = 3,
    /*
     An earlier failure stopped all writes: close and open again.
     */
    TERRACE_POISONED = 4,
    /*
     The memory given does not suffice.
     */
    TERRACE_MEMORY_TOO_SMALL = 5,
    /*
     The key is too long.
     */
    TERRACE_KEY_TOO_LONG = 6,
    /*
     The value is too long.
     */
    TERRACE_VALUE_TOO_LONG = 7,
    /*
     Another process or handle has the database.
     */
    TERRACE_LOCKED = 8,
    /*
     The log has to be replayed before it can be read only.
     */
    TERRACE_NOT_CLOSED = 9,
    /*
     There is no structure of this name.
     */
    TERRACE_NO_SUCH_STRUCTURE = 10,
    /*
     There is a structure of this name already.
     */
    TERRACE_STRUCTURE_EXISTS = 11,
    /*
     Two rows would have the same key in a unique index.
     */
    TERRACE_DUPLICATE = 12,
    /*
     The space that the snapshot kept was needed.
     */
    TERRACE_SNAPSHOT_GONE = 13,
    /*
     A caller asked for the end of it.
     */
    TERRACE_CANCELLED = 14,
    /*
     The power went while a map without protection was open.
     */
    TERRACE_POWER_LOST = 15,
    /*
     Others changed what a transaction had read. Nothing was changed; begin it again.
     */
    TERRACE_CONFLICT = 16,
    /*
     Arguments that do not fit: NULL where something is needed, a length that cannot be, another kind.
     */
    TERRACE_INVALID = 17,
    /*
     The handle was closed, or is none of this kind.
     */
    TERRACE_CLOSED = 18,
    /*
     The handle was made before a fork, in the parent.
     */
    TERRACE_FORKED = 19,
    /*
     A defect of Terrace. The database refuses everything until it is opened again.
     */
    TERRACE_DEFECT = 20,
    /*
     A callback said that it failed. Nothing was changed.
     */
    TERRACE_ABORTED = 21,
    /*
     Something that this version has no number for.
     */
    TERRACE_UNKNOWN = 22,
    /*
     The log no longer has the changes from that place on.
     */
    TERRACE_CHANGES_GONE = 23,
} terrace_status;

/*
 Kinds of structures.
 */
typedef enum {
    /*
     An ordered map.
     */
    TERRACE_TREE = 1,
    /*
     A map without order.
     */
    TERRACE_HASH = 2,
    /*
     Rows by a primary key, with indexes.
     */
    TERRACE_TABLE = 3,
    /*
     An ordered map for many writes.
     */
    TERRACE_LSM = 4,
} terrace_kind;

/*
 What a write promises when it returns.
 */
typedef enum {
    /*
     As the database was opened; there, TERRACE_BUFFERED.
     */
    TERRACE_DEFAULT = 0,
    /*
     It survives the process.
     */
    TERRACE_BUFFERED = 1,
    /*
     It survives a power cut.
     */
    TERRACE_SYNC = 2,
} terrace_durability;

/*
 Whether something is to be so.
 */
typedef enum {
    /*
     As it is by default, or as it was made.
     */
    TERRACE_EITHER = 0,
    /*
     It is.
     */
    TERRACE_YES = 1,
    /*
     It is not.
     */
    TERRACE_NO = 2,
} terrace_choice;

/*
 Ways to change a value by what is there.
 */
typedef enum {
    /*
     Adds `number` to a number of eight bytes in which the highest bit is turned around, big-endian, so that
     bytes compare as numbers do; none counts as 0.
     */
    TERRACE_ADD = 1,
    /*
     Adds `number` to a big-endian number of eight bytes without sign.
     */
    TERRACE_ADD_UNSIGNED = 2,
    /*
     Keeps the lower one of the two, as bytes compare.
     */
    TERRACE_MIN = 3,
    /*
     Keeps the higher one of the two, as bytes compare.
     */
    TERRACE_MAX = 4,
    /*
     Appends `value`; more than `limit` bytes in all are an error, 0 is the longest value that there is.
     */
    TERRACE_APPEND = 5,
    /*
     Stores `value` if there is none.
     */
    TERRACE_SET_IF_ABSENT = 6,
} terrace_merge_kind;

/*
 What a change is.
 */
typedef enum {
    /*
     Of a kind that this library does not know.
     */
    TERRACE_CHANGE_OTHER = 0,
    /*
     The key has this value from now on.
     */
    TERRACE_CHANGE_PUT = 1,
    /*
     The key is not there from now on; it may not have been there before.
     */
    TERRACE_CHANGE_DELETE = 2,
    /*
     The structure is there from now on.
     */
    TERRACE_CHANGE_CREATED = 3,
    /*
     The structure is gone, with all that is in it.
     */
    TERRACE_CHANGE_DROPPED = 4,
    /*
     The structure has this name from now on.
     */
    TERRACE_CHANGE_RENAMED = 5,
    /*
     The application has marked this place, see terrace_mark.
     */
    TERRACE_CHANGE_MARKED = 6,
    /*
     No key of a range is there from now on: from `key` to before `value`, or to the end where `value.data` is NULL.
     */
    TERRACE_CHANGE_DELETE_RANGE = 7,
} terrace_change_kind;

/*
 Changes that are made together, all or none.
 */
typedef struct terrace_batch terrace_batch;

/*
 Reads the changes of a database.
 */
typedef struct terrace_changes terrace_changes;

/*
 Goes through records in one direction.
 */
typedef struct terrace_cursor terrace_cursor;

/*
 An open database.
 */
typedef struct terrace_db terrace_db;

/*
 What went wrong, in full. Give it back with terrace_error_free.
 */
typedef struct terrace_error terrace_error;

/*
 Copies the log of a database to a backup set.
 */
typedef struct terrace_follower terrace_follower;

/*
 An index of a table, for reading.
 */
typedef struct terrace_index terrace_index;

/*
 Loads many records into a structure.
 */
typedef struct terrace_loader terrace_loader;

/*
 A structure of records by key: a tree, a hash table, a table or an LSM-tree, or one of a snapshot.
 */
typedef struct terrace_map terrace_map;

/*
 Everything as it was at one instant.
 */
typedef struct terrace_snapshot terrace_snapshot;

/*
 Reads and writes of one instant, or none. Nothing is held while it goes on.
 */
typedef struct terrace_transaction terrace_transaction;

/*
 Bytes that are the caller's, to be given back with terrace_bytes_free. A zero byte that does not count lies
 behind them, so texts are strings of C.
 */
typedef struct {
    /*
     The first byte; NULL if there is nothing, as opposed to nothing in it.
     */
    uint8_t *data;
    /*
     How many there are.
     */
    size_t len;
} terrace_bytes;

/*
 What a database is opened with. Begin with TERRACE_OPTIONS_INIT.
 */
typedef struct {
    /*
     The size of this structure, which the macro sets.
     */
    size_t size;
    /*
     Memory for everything that the database keeps; 0 is 256 MiB.
     */
    uint64_t memory_bytes;
    /*
     Size of a page: 4096, 8192, 16384 (the default), 32768 or 65536. Fixed when the database is made.
     */
    uint64_t page_bytes;
    /*
     Bytes of log after which a checkpoint begins; 0 is the larger of 256 MiB and twice the memory.
     */
    uint64_t log_limit_bytes;
    /*
     Bytes that snapshots and backups may keep on the disk; 0 is as much as there is data.
     */
    uint64_t snapshot_space_bytes;
    /*
     Bytes of log that are kept for who follows it and is behind; 0 is the limit of the log.
     */
    uint64_t archive_lag_bytes;
    /*
     A terrace_durability, of writes that say none.
     */
    uint32_t durability;
    /*
     1: an error if there is no database.
     */
    uint8_t must_exist;
    /*
     1: nothing is written, made or deleted; others may read as well.
     */
    uint8_t read_only;
    /*
     1: pages go through the cache of the operating system.
     */
    uint8_t buffered_io;
    /*
     1: a socket in its folder answers `terrace stat` and the like.
     */
    uint8_t control;
    /*
     Bytes of log that stay behind checkpoints for who reads the changes and is away; 0 is none.
     */
    uint64_t keep_changes_bytes;
} terrace_options;

/*
 Hears how far long work has come, some hundred times at most and on the calling thread. `work` is a word as
 "backup". Answers 0 to go on, anything else to cancel, where that is possible. It must not unwind or longjmp.
 */
typedef int (*terrace_progress)(const char *work, uint64_t done, uint64_t total, void *context);

/*
 How a structure is to be made, or what one that is there is expected to be. Begin with
 TERRACE_MAP_OPTIONS_INIT.
 */
typedef struct {
    /*
     The size of this structure, which the macro sets.
     */
    size_t size;
    /*
     1 or 2 tiers; 0 is 2.
     */
    uint32_t tiers;
    /*
     A terrace_choice: whether promoted records stay in the cold tier too. By default they do.
     */
    uint32_t inclusive;
    /*
     A terrace_choice: whether changes go to the log. By default they do.
     */
    uint32_t logged;
    /*
     In how many levels, counted from the last one, pages of an LSM-tree are compressed; 0 is none.
     */
    uint32_t compressed_levels;
    /*
     Indexes of a table, as "city=json:/city", "mail=unique:csv:2" or "part=bytes:0..4". Without any, a table
     that is there has those that it has.
     */
    const char *const *indexes;
    /*
     How many there are.
     */
    size_t index_count;
    /*
     1: its records may expire. That is so for good.
     */
    uint64_t expiring;
} terrace_map_options;

/*
 Bytes that are lent: of the caller for a call, or of Terrace for as long as the function says. `data` may be
 NULL if `len` is 0.
 */
typedef struct {
    /*
     The first byte.
     */
    const uint8_t *data;
    /*
     How many there are.
     */
    size_t len;
} terrace_slice;

/*
 A change of a value by what is there. Fields that its kind has no use for are not looked at.
 */
typedef struct {
    /*
     A terrace_merge_kind.
     */
    uint32_t kind;
    /*
     What is added.
     */
    int64_t number;
    /*
     What is compared, appended or stored.
     */
    terrace_slice value;
    /*
     Most bytes that the value may have.
     */
    uint64_t limit;
} terrace_merge_op;

/*
 How a range is removed. Begin with TERRACE_REMOVE_OPTIONS_INIT.
 */
typedef struct {
    /*
     The size of this structure, which the macro sets.
     */
    size_t size;
    /*
     Most bytes of records a second; 0 is as fast as it goes.
     */
    uint64_t rate;
    /*
     Who hears after each step how many records are gone, as `done`, and may end it; or NULL.
     */
    terrace_progress progress;
    /*
     Handed to `progress`.
     */
    void *context;
    /*
     A terrace_durability, of each step.
     */
    uint64_t durability;
} terrace_remove_options;

/*
 From where changes are read, and how long. Begin with TERRACE_CHANGES_OPTIONS_INIT.
 */
typedef struct {
    /*
     The size of this structure, which the macro sets.
     */
    size_t size;
    /*
     A place that terrace_commit_place or terrace_changes_place has said; NULL is now.
     */
    const char *from;
    /*
     Milliseconds after which what was written is made durable for whoever waits for it, if no thread has done that;
     0 is a second, TERRACE_FOREVER never.
     */
    uint64_t sync_every_ms;
    /*
     1: ends with the last commit that there is when reading begins.
     */
    uint64_t until_now;
} terrace_changes_options;

/*
 A change of a commit. What it lends lives as long as the commit; `data` is NULL where there is nothing.
 */
typedef struct {
    /*
     A terrace_change_kind.
     */
    uint32_t what;
    /*
     The terrace_kind of the structure, 0 if it is not known.
     */
    uint32_t kind;
    /*
     The number of the structure, which stays when it is renamed.
     */
    uint32_t structure;
    /*
     When a mark was made, or a put expires, in milliseconds since 1970; 0 of others.
     */
    uint64_t time_ms;
    /*
     The name of the structure as it was then, or of the mark.
     */
    terrace_slice name;
    /*
     The key.
     */
    terrace_slice key;
    /*
     The value.
     */
    terrace_slice value;
} terrace_change;

/*
 How a transaction is made. Begin with TERRACE_TRANSACTION_OPTIONS_INIT.
 */
typedef struct {
    /*
     The size of this structure, which the macro sets.
     */
    size_t size;
    /*
     A terrace_durability.
     */
    uint32_t durability;
    /*
     How often terrace_transact tries; 0 is 100.
     */
    uint32_t attempts;
    /*
     A name for the figures, or NULL. The first 64 different ones count.
     */
    const char *label;
} terrace_transaction_options;

/*
 What terrace_transact and terrace_read run, perhaps several times. It answers 0 (TERRACE_OK) to go on to the
 commit, or a terrace_status: then nothing is changed, and that is the answer. It must not unwind or longjmp,
 and not use the transaction after it has returned.
 */
typedef uint32_t (*terrace_transaction_function)(terrace_transaction *transaction, void *context);

/*
 How a backup is made. Begin with TERRACE_BACKUP_OPTIONS_INIT.
 */
typedef struct {
    /*
     The size of this structure, which the macro sets.
     */
    size_t size;
    /*
     Bytes a second; 0 is gentle, TERRACE_FAST as fast as it goes.
     */
    uint64_t rate;
    /*
     What the point is called, or NULL.
     */
    const char *mark;
    /*
     Who hears how far it has come, or NULL.
     */
    terrace_progress progress;
    /*
     Handed to `progress`.
     */
    void *context;
    /*
     1: every page is stored again, whatever the set has.
     */
    uint64_t full;
} terrace_backup_options;

/*
 How a backup is restored. At most one of point, sequence, time and mark; without, the newest state. Begin with
 TERRACE_RESTORE_OPTIONS_INIT.
 */
typedef struct {
    /*
     The size of this structure, which the macro sets.
     */
    size_t size;
    /*
     The number of a point.
     */
    uint64_t point;
    /*
     The number of a change.
     */
    uint64_t sequence;
    /*
     Milliseconds since 1970.
     */
    uint64_t time_ms;
    /*
     The name of a mark, or NULL.
     */
    const char *mark;
    /*
     Restores this structure alone, or NULL.
     */
    const char *structure;
    /*
     Memory to verify it with; 0 is 256 MiB.
     */
    uint64_t memory_bytes;
    /*
     Who hears how far it has come, or NULL.
     */
    terrace_progress progress;
    /*
     Handed to `progress`.
     */
    void *context;
    /*
     1: what was restored is not verified.
     */
    uint64_t unverified;
} terrace_restore_options;

/*
 How a log is followed. Begin with TERRACE_FOLLOW_OPTIONS_INIT.
 */
typedef struct {
    /*
     The size of this structure, which the macro sets.
     */
    size_t size;
    /*
     Milliseconds between copies; 0 is a second.
     */
    uint64_t every_ms;
    /*
     Bytes of log after which a new point is made; 0 is never.
     */
    uint64_t point_after_bytes;
    /*
     Bytes a second, of points; 0 is gentle, TERRACE_FAST as fast as it goes.
     */
    uint64_t rate;
} terrace_follow_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of the library, as "0.1.0". It is never freed.
 */
const char *terrace_version(void);

/*
 The word of a status, as "disk_full"; "ok" for 0, "unknown" for others. It is never freed.
 */
const char *terrace_status_name(uint32_t status);

/*
 The status that came with the error; TERRACE_OK for NULL.
 */
terrace_status terrace_error_status(const terrace_error *error);

/*
 What happened, where, and the way out, in UTF-8; "" for NULL. It lives as long as the error.
 */
const char *terrace_error_message(const terrace_error *error);

/*
 The number of the operating system's error (errno), where it was one; else 0.
 */
int32_t terrace_error_os(const terrace_error *error);

/*
 Frees an error. NULL is nothing.
 */
void terrace_error_free(terrace_error *error);

/*
 Frees bytes that Terrace gave, and makes them nothing, so that freeing them again is nothing. NULL is nothing.
 */
void terrace_bytes_free(terrace_bytes *bytes);

/*
 Opens the database in the directory `path`, and makes both if they are missing and the options allow it.
 `options` may be NULL. Close it with terrace_close.
 */
terrace_status terrace_open(const char *path,
                            const terrace_options *options,
                            terrace_db **db,
                            terrace_error **error);

/*
 Closes a database, and all that was opened through it: waits for calls that are under way and makes a last
 checkpoint. If that fails it is closed all the same, and nothing is lost. Closing twice, or NULL, is nothing.
 */
terrace_status terrace_close(terrace_db *db, terrace_error **error);

/*
 Makes everything durable that was written so far, structures without log excepted.
 */
terrace_status terrace_sync(terrace_db *db, terrace_error **error);

/*
 Makes a checkpoint: the next opening has nothing to replay of what came before.
 */
terrace_status terrace_checkpoint(terrace_db *db, terrace_error **error);

/*
 The number of the last logged change.
 */
terrace_status terrace_sequence(terrace_db *db, uint64_t *sequence, terrace_error **error);

/*
 Marks this place in the order of changes, durably, so that a restore can go back to it. `sequence`, its
 number, may be NULL.
 */
terrace_status terrace_mark(terrace_db *db, const char *name, uint64_t *sequence, terrace_error **error);

/*
 Walks every page and every structure and checks every invariant; `report` is JSON, whose "problems" are empty
 if all is well. Other calls wait meanwhile, and `progress`, which may be NULL, must not make any; it cannot
 cancel.
 */
terrace_status terrace_verify(terrace_db *db,
                              terrace_progress progress,
                              void *context,
                              terrace_bytes *report,
                              terrace_error **error);

/*
 Makes pages full and the file short, while others go on; `report` is JSON. `rate` is bytes a second, 0 for
 gentle, or TERRACE_FAST. `progress` may be NULL.
 */
terrace_status terrace_compact(terrace_db *db,
                               uint64_t rate,
                               terrace_progress progress,
                               void *context,
                               terrace_bytes *report,
                               terrace_error **error);

/*
 The figures as JSON: where the memory goes, what was read and written, what the tiers did.
 */
terrace_status terrace_stats(terrace_db *db, terrace_bytes *json, terrace_error **error);

/*
 The same, with about how many records there are and in which tier, from a sample: reads some dozen pages of
 each structure.
 */
terrace_status terrace_survey(terrace_db *db, terrace_bytes *json, terrace_error **error);

/*
 The figures as a table for people.
 */
terrace_status terrace_stats_table(terrace_db *db, terrace_bytes *table, terrace_error **error);

/*
 The figures as metrics: the Prometheus text format, or OpenMetrics.
 */
terrace_status terrace_metrics(terrace_db *db,
                               bool openmetrics,
                               terrace_bytes *metrics,
                               terrace_error **error);

/*
 The tree of this name, made if there is none. `options` may be NULL. Give it back with terrace_map_close, or
 leave that to terrace_close.
 */
terrace_status terrace_tree(terrace_db *db,
                            const char *name,
                            const terrace_map_options *options,
                            terrace_map **map,
                            terrace_error **error);

/*
 The hash table of this name, made if there is none; as terrace_tree.
 */
terrace_status terrace_hash(terrace_db *db,
                            const char *name,
                            const terrace_map_options *options,
                            terrace_map **map,
                            terrace_error **error);

/*
 The LSM-tree of this name, made if there is none; as terrace_tree.
 */
terrace_status terrace_lsm(terrace_db *db,
                           const char *name,
                           const terrace_map_options *options,
                           terrace_map **map,
                           terrace_error **error);

/*
 The table of this name, made if there is none; as terrace_tree. Indexes that the options name are made, and
 have to be those that a table has that is there.
 */
terrace_status terrace_table(terrace_db *db,
                             const char *name,
                             const terrace_map_options *options,
                             terrace_map **map,
                             terrace_error **error);

/*
 A structure that is there, of whatever kind.
 */
terrace_status terrace_map_open(terrace_db *db, const char *name, terrace_map **map, terrace_error **error);

/*
 Gives back the handle of a structure; the structure stays. Twice, or NULL, is nothing.
 */
void terrace_map_close(terrace_map *map);

/*
 Its name now.
 */
terrace_status terrace_map_name(terrace_map *map, terrace_bytes *name, terrace_error **error);

/*
 Its kind.
 */
terrace_status terrace_map_kind(terrace_map *map, terrace_kind *kind, terrace_error **error);

/*
 About how many records there are, from a sample: usually within a twentieth, of an LSM-tree within a quarter.
 */
terrace_status terrace_map_estimate(terrace_map *map, uint64_t *records, terrace_error **error);

/*
 What structures there are, as JSON.
 */
terrace_status terrace_structures(terrace_db *db, terrace_bytes *json, terrace_error **error);

/*
 Drops a structure. Its space is given back in the background.
 */
terrace_status terrace_drop(terrace_db *db, const char *name, terrace_error **error);

/*
 Gives a structure another name. Its handles stay good.
 */
terrace_status terrace_rename(terrace_db *db, const char *from, const char *to, terrace_error **error);

/*
 An index of a table, of a snapshot or not. Give it back with terrace_index_close, or leave that to what closes
 the table.
 */
terrace_status terrace_index_open(terrace_map *table,
                                  const char *name,
                                  terrace_index **index,
                                  terrace_error **error);

/*
 Gives back the handle of an index; the index stays. Twice, or NULL, is nothing.
 */
void terrace_index_close(terrace_index *index);

/*
 The indexes of a table, as JSON.
 */
terrace_status terrace_indexes(terrace_map *table, terrace_bytes *json, terrace_error **error);

/*
 Makes an index over all rows, as "city=json:/city", "mail=unique:csv:2" or "part=bytes:0..4".
 */
terrace_status terrace_create_index(terrace_map *table, const char *index, terrace_error **error);

/*
 Drops an index.
 */
terrace_status terrace_drop_index(terrace_map *table, const char *name, terrace_error **error);

/*
 The value of a key. `value->data` is NULL if there is none; else give it back with terrace_bytes_free.
 */
terrace_status terrace_get(terrace_map *map, terrace_slice key, terrace_bytes *value, terrace_error **error);

/*
 Copies the value of a key to `buffer` if it fits into `capacity` bytes, all of it or nothing. `len` says how
 long it is, TERRACE_NONE if there is none; so more than `capacity` means that a larger buffer is needed.
 */
terrace_status terrace_get_into(terrace_map *map,
                                terrace_slice key,
                                uint8_t *buffer,
                                size_t capacity,
                                size_t *len,
                                terrace_error **error);

/*
 The values of `count` keys, which `values` has room for; those that are not there have NULL as their data. Give
 back each with terrace_bytes_free. Cold ones are read together. On an error there are none.
 */
terrace_status terrace_get_many(terrace_map *map,
                                const terrace_slice *keys,
                                size_t count,
                                terrace_bytes *values,
                                terrace_error **error);

/*
 Whether there is a value.
 */
terrace_status terrace_contains(terrace_map *map, terrace_slice key, bool *found, terrace_error **error);

/*
 Stores a value, whether the key was there or not.
 */
terrace_status terrace_put(terrace_map *map, terrace_slice key, terrace_slice value, terrace_error **error);

/*
 terrace_put with a terrace_durability.
 */
terrace_status terrace_put_with(terrace_map *map,
                                terrace_slice key,
                                terrace_slice value,
                                uint32_t durability,
                                terrace_error **error);

/*
 Removes a key, whether it was there or not.
 */
terrace_status terrace_delete(terrace_map *map, terrace_slice key, terrace_error **error);

/*
 terrace_delete with a terrace_durability.
 */
terrace_status terrace_delete_with(terrace_map *map,
                                   terrace_slice key,
                                   uint32_t durability,
                                   terrace_error **error);

/*
 Stores a value if the key is not there. `inserted` says whether it did; it may be NULL.
 */
terrace_status terrace_insert(terrace_map *map,
                              terrace_slice key,
                              terrace_slice value,
                              uint32_t durability,
                              bool *inserted,
                              terrace_error **error);

/*
 Removes a key. `value` is the one that it had, as terrace_get says it.
 */
terrace_status terrace_remove(terrace_map *map,
                              terrace_slice key,
                              uint32_t durability,
                              terrace_bytes *value,
                              terrace_error **error);

/*
 Changes a value by what is there, atomically. `changed` says whether that changed anything; it may be NULL.
 */
terrace_status terrace_merge(terrace_map *map,
                             terrace_slice key,
                             const terrace_merge_op *op,
                             uint32_t durability,
                             bool *changed,
                             terrace_error **error);

/*
 Stores `new_value` if the value is `expected`, atomically. NULL is no value, for both. `set` says whether it
 was so; it may be NULL.
 */
terrace_status terrace_compare_and_set(terrace_map *map,
                                       terrace_slice key,
                                       const terrace_slice *expected,
                                       const terrace_slice *new_value,
                                       uint32_t durability,
                                       bool *set,
                                       terrace_error **error);

/*
 Stores a value that is there for this many milliseconds: from then on no reader sees it, and its space comes back by
 and by. The structure has to be made with `expiring`.
 */
terrace_status terrace_put_for(terrace_map *map,
                               terrace_slice key,
                               terrace_slice value,
                               uint64_t ms,
                               terrace_error **error);

/*
 Stores a value that is there until a time, in milliseconds since 1970, or TERRACE_FOREVER, with a
 terrace_durability. A time that has passed removes the key.
 */
terrace_status terrace_put_until(terrace_map *map,
                                 terrace_slice key,
                                 terrace_slice value,
                                 uint64_t time_ms,
                                 uint32_t durability,
                                 terrace_error **error);

/*
 Has a record expire in this many milliseconds, or never (TERRACE_FOREVER). `there` says whether it is; it may be
 NULL.
 */
terrace_status terrace_expire_in(terrace_map *map,
                                 terrace_slice key,
                                 uint64_t ms,
                                 bool *there,
                                 terrace_error **error);

/*
 Has a record expire at a time, in milliseconds since 1970, or never (TERRACE_FOREVER); as terrace_expire_in.
 */
terrace_status terrace_expire_at(terrace_map *map,
                                 terrace_slice key,
                                 uint64_t time_ms,
                                 bool *there,
                                 terrace_error **error);

/*
 Until when a record is there: milliseconds since 1970, TERRACE_FOREVER, or 0 if it is not there.
 */
terrace_status terrace_expires(terrace_map *map, terrace_slice key, uint64_t *time_ms, terrace_error **error);

/*
 Adds a put that expires at a time, in milliseconds since 1970, or TERRACE_FOREVER.
 */
terrace_status terrace_batch_put_until(terrace_batch *batch,
                                       terrace_map *map,
                                       terrace_slice key,
                                       terrace_slice value,
                                       uint64_t time_ms,
                                       terrace_error **error);

/*
 Removes the records whose keys are at least `from` and less than `to`; NULL is no bound. In steps of some hundred,
 each a batch: others go on meanwhile, and whatever ends it early, what lies before a place is gone and the rest
 is there. Not of a hash table. `options`, and `removed`, how many there were, may be NULL.
 */
terrace_status terrace_remove_range(terrace_map *map,
                                    const terrace_slice *from,
                                    const terrace_slice *to,
                                    const terrace_remove_options *options,
                                    uint64_t *removed,
                                    terrace_error **error);

/*
 Removes the records whose keys begin so; as terrace_remove_range.
 */
terrace_status terrace_remove_prefix(terrace_map *map,
                                     terrace_slice prefix,
                                     const terrace_remove_options *options,
                                     uint64_t *removed,
                                     terrace_error **error);

/*
 A cursor over the records whose keys are at least `from` and less than `to`, by key, or against it if
 `reverse`; NULL is no bound. All of a hash table comes in an order of its own. Each record that is there all
 the while comes once; what comes or goes meanwhile may or may not. Close it with terrace_cursor_close.
 */
terrace_status terrace_range(terrace_map *map,
                             const terrace_slice *from,
                             const terrace_slice *to,
                             bool reverse,
                             terrace_cursor **cursor,
                             terrace_error **error);

/*
 A cursor over the records whose keys begin so.
 */
terrace_status terrace_prefix(terrace_map *map,
                              terrace_slice prefix,
                              bool reverse,
                              terrace_cursor **cursor,
                              terrace_error **error);

/*
 A cursor over all records, in whatever order takes the fewest reads.
 */
terrace_status terrace_unordered(terrace_map *map, terrace_cursor **cursor, terrace_error **error);

/*
 A cursor over the rows whose keys in an index are at least `from` and less than `to`: primary keys with rows.
 */
terrace_status terrace_index_range(terrace_index *index,
                                   const terrace_slice *from,
                                   const terrace_slice *to,
                                   bool reverse,
                                   terrace_cursor **cursor,
                                   terrace_error **error);

/*
 A cursor over the rows whose keys in an index begin so.
 */
terrace_status terrace_index_prefix(terrace_index *index,
                                    terrace_slice prefix,
                                    bool reverse,
                                    terrace_cursor **cursor,
                                    terrace_error **error);

/*
 A cursor over the rows with this key in an index.
 */
terrace_status terrace_index_get(terrace_index *index,
                                 terrace_slice index_key,
                                 terrace_cursor **cursor,
                                 terrace_error **error);

/*
 A cursor over the keys of an index in a range, each with a primary key as its value.
 */
terrace_status terrace_index_keys(terrace_index *index,
                                  const terrace_slice *from,
                                  const terrace_slice *to,
                                  bool reverse,
                                  terrace_cursor **cursor,
                                  terrace_error **error);

/*
 The next record; `key->data` is NULL at the end. What it says lives until this cursor is called the next time,
 or closed. `value` may be NULL. One thread at a time: another one that calls meanwhile gets an error.
 */
terrace_status terrace_cursor_next(terrace_cursor *cursor,
                                   terrace_slice *key,
                                   terrace_slice *value,
                                   terrace_error **error);

/*
 The next records in one piece, at most `most_bytes` of it, or a single longer one; 0 is a mebibyte, which is
 the most. `records` says how many, 0 at the end. Go through them with terrace_window_next, beginning at
 TERRACE_WINDOW_HEAD, and give the window back with terrace_bytes_free. Threads may share a cursor so.
 */
terrace_status terrace_cursor_window(terrace_cursor *cursor,
                                     size_t most_bytes,
                                     terrace_bytes *window,
                                     size_t *records,
                                     terrace_error **error);

/*
 The record at `*at` of a window, which moves on; false at the end. What it says lives as long as the window.
 */
bool terrace_window_next(terrace_slice window, size_t *at, terrace_slice *key, terrace_slice *value);

/*
 Gives back a cursor. Twice, or NULL, is nothing.
 */
void terrace_cursor_close(terrace_cursor *cursor);

/*
 An empty batch. What is added does no more than is said here; what does not fit is told by terrace_write. Give
 it back with terrace_batch_destroy.
 */
terrace_status terrace_batch_create(terrace_db *db,
                                    terrace_batch **batch,
                                    terrace_error **error);

/*
 Adds a put.
 */
terrace_status terrace_batch_put(terrace_batch *batch,
                                 terrace_map *map,
                                 terrace_slice key,
                                 terrace_slice value,
                                 terrace_error **error);

/*
 Adds a delete.
 */
terrace_status terrace_batch_delete(terrace_batch *batch,
                                    terrace_map *map,
                                    terrace_slice key,
                                    terrace_error **error);

/*
 Adds a merge: it is worked out when the batch is written, in its order.
 */
terrace_status terrace_batch_merge(terrace_batch *batch,
                                   terrace_map *map,
                                   terrace_slice key,
                                   const terrace_merge_op *op,
                                   terrace_error **error);

/*
 Adds a comparison: where the value is another one when the batch is written, this change alone is not made.
 */
terrace_status terrace_batch_compare_and_set(terrace_batch *batch,
                                             terrace_map *map,
                                             terrace_slice key,
                                             const terrace_slice *expected,
                                             const terrace_slice *new_value,
                                             terrace_error **error);

/*
 How many changes it has.
 */
terrace_status terrace_batch_count(terrace_batch *batch, size_t *count, terrace_error **error);

/*
 Forgets all changes.
 */
terrace_status terrace_batch_clear(terrace_batch *batch, terrace_error **error);

/*
 Makes all changes of a batch, or none, with a terrace_durability. The batch is empty then, and may be used
 again.
 */
terrace_status terrace_write(terrace_db *db,
                             terrace_batch *batch,
                             uint32_t durability,
                             terrace_error **error);

/*
 The same with changes that are encoded in one piece, as the guide says; it names structures by their place in
 `maps`. All of it is checked before anything is written.
 */
terrace_status terrace_write_encoded(terrace_db *db,
                                     terrace_map *const *maps,
                                     size_t map_count,
                                     terrace_slice changes,
                                     uint32_t durability,
                                     terrace_error **error);

/*
 Gives back a batch; what was not written is forgotten. Twice, or NULL, is nothing.
 */
void terrace_batch_destroy(terrace_batch *batch);

/*
 Reads every commit from now on, or from where `options` say, which may be NULL: each once, in the order in which
 they happened, and none that a power cut could take back. Give the reader back with terrace_changes_close: it
 keeps log. TERRACE_CHANGES_GONE if the log from that place on is not there any more.
 */
terrace_status terrace_changes_begin(terrace_db *db,
                                     const terrace_changes_options *options,
                                     terrace_changes **changes,
                                     terrace_error **error);

/*
 To begin something that is kept beside the database: everything as it is now, and a reader of every commit from
 there on. No commit is in both, none in neither. `from` of the options is not looked at.
 */
terrace_status terrace_changes_with_snapshot(terrace_db *db,
                                             const terrace_changes_options *options,
                                             terrace_changes **changes,
                                             terrace_snapshot **snapshot,
                                             terrace_error **error);

/*
 The next commit, waiting at most this many milliseconds for it, about, or TERRACE_FOREVER; `commit->data` is NULL
 if there is none, and `ended`, which may be NULL, says whether there will be none any more. Closing the reader ends
 the wait. Go through the commit with terrace_commit_next, beginning at TERRACE_COMMIT_HEAD, and give it back with
 terrace_bytes_free. Threads may share a reader: each commit goes to one of them.
 */
terrace_status terrace_changes_next(terrace_changes *changes,
                                    uint64_t wait_ms,
                                    terrace_bytes *commit,
                                    bool *ended,
                                    terrace_error **error);

/*
 The place behind what was given out so far, as text, from which another reader goes on.
 */
terrace_status terrace_changes_place(terrace_changes *changes, terrace_bytes *place, terrace_error **error);

/*
 Gives back a reader of changes, and the log that was kept for it. Twice, or NULL, is nothing.
 */
void terrace_changes_close(terrace_changes *changes);

/*
 The number of a commit in the order of changes, as terrace_sequence says it; 0 of what is no commit.
 */
uint64_t terrace_commit_sequence(terrace_slice commit);

/*
 The place behind a commit, as text that lives as long as the commit: who has done with it what is to be done keeps
 this, and goes on from here. NULL of what is no commit.
 */
const char *terrace_commit_place(terrace_slice commit);

/*
 The change at `*at` of a commit, which moves on; false at the end.
 */
bool terrace_commit_next(terrace_slice commit, size_t *at, terrace_change *change);

/*
 Begins a transaction. End it with terrace_commit or terrace_abort. `options` may be NULL.
 */
terrace_status terrace_begin(terrace_db *db,
                             const terrace_transaction_options *options,
                             terrace_transaction **transaction,
                             terrace_error **error);

/*
 Commits a transaction, which is over then, whatever comes of it. TERRACE_CONFLICT: others changed what it had
 read, nothing was done, begin it again. `sequence`, its number in the order of changes, 0 if it changed
 nothing that is logged, may be NULL.
 */
terrace_status terrace_commit(terrace_transaction *transaction, uint64_t *sequence, terrace_error **error);

/*
 Ends a transaction without a trace. Twice, or NULL, is nothing.
 */
void terrace_abort(terrace_transaction *transaction);

/*
 Runs a transaction: `function` with the transaction and `context`, again while others are faster, and commits
 what it did. `options` may be NULL.
 */
terrace_status terrace_transact(terrace_db *db,
                                const terrace_transaction_options *options,
                                terrace_transaction_function function,
                                void *context,
                                terrace_error **error);

/*
 The same with a transaction that only reads: all that it reads is of one instant.
 */
terrace_status terrace_read(terrace_db *db,
                            const terrace_transaction_options *options,
                            terrace_transaction_function function,
                            void *context,
                            terrace_error **error);

/*
 The value of a key, with the transaction's own changes; as terrace_get.
 */
terrace_status terrace_transaction_get(terrace_transaction *transaction,
                                       terrace_map *map,
                                       terrace_slice key,
                                       terrace_bytes *value,
                                       terrace_error **error);

/*
 The same without looking at the commit whether it is still so.
 */
terrace_status terrace_transaction_get_unchecked(terrace_transaction *transaction,
                                                 terrace_map *map,
                                                 terrace_slice key,
                                                 terrace_bytes *value,
                                                 terrace_error **error);

/*
 The values of keys; as terrace_get_many.
 */
terrace_status terrace_transaction_get_many(terrace_transaction *transaction,
                                            terrace_map *map,
                                            const terrace_slice *keys,
                                            size_t count,
                                            terrace_bytes *values,
                                            terrace_error **error);

/*
 Stores a value.
 */
terrace_status terrace_transaction_put(terrace_transaction *transaction,
                                       terrace_map *map,
                                       terrace_slice key,
                                       terrace_slice value,
                                       terrace_error **error);

/*
 Removes a key, whether it is there or not.
 */
terrace_status terrace_transaction_delete(terrace_transaction *transaction,
                                          terrace_map *map,
                                          terrace_slice key,
                                          terrace_error **error);

/*
 Stores a value if the key is not there. `inserted` says whether; it may be NULL.
 */
terrace_status terrace_transaction_insert(terrace_transaction *transaction,
                                          terrace_map *map,
                                          terrace_slice key,
                                          terrace_slice value,
                                          bool *inserted,
                                          terrace_error **error);

/*
 Removes a key; `value` is the one that it had, as terrace_get says it.
 */
terrace_status terrace_transaction_remove(terrace_transaction *transaction,
                                          terrace_map *map,
                                          terrace_slice key,
                                          terrace_bytes *value,
                                          terrace_error **error);

/*
 Changes a value by what is there at the commit.
 */
terrace_status terrace_transaction_merge(terrace_transaction *transaction,
                                         terrace_map *map,
                                         terrace_slice key,
                                         const terrace_merge_op *op,
                                         terrace_error **error);

/*
 Stores `new_value` at the commit if the value is `expected` then; else this change alone is not made.
 */
terrace_status terrace_transaction_compare_and_set(terrace_transaction *transaction,
                                                   terrace_map *map,
                                                   terrace_slice key,
                                                   const terrace_slice *expected,
                                                   const terrace_slice *new_value,
                                                   terrace_error **error);

/*
 A cursor over a range, as terrace_range, with the transaction's own changes. All of the range counts as read.
 */
terrace_status terrace_transaction_range(terrace_transaction *transaction,
                                         terrace_map *map,
                                         const terrace_slice *from,
                                         const terrace_slice *to,
                                         bool reverse,
                                         terrace_cursor **cursor,
                                         terrace_error **error);

/*
 A cursor over rows by an index of a table, as terrace_index_range; they are read at once.
 */
terrace_status terrace_transaction_index_range(terrace_transaction *transaction,
                                               terrace_map *table,
                                               const char *index,
                                               const terrace_slice *from,
                                               const terrace_slice *to,
                                               bool reverse,
                                               terrace_cursor **cursor,
                                               terrace_error **error);

/*
 A snapshot of now, or one that is at most this many milliseconds old, which costs less where there is one.
 Give it back with terrace_release_snapshot: it keeps space.
 */
terrace_status terrace_create_snapshot(terrace_db *db,
                                       uint64_t most_age_ms,
                                       terrace_snapshot **snapshot,
                                       terrace_error **error);

/*
 Gives back a snapshot, with its structures and their cursors. Twice, or NULL, is nothing.
 */
void terrace_release_snapshot(terrace_snapshot *snapshot);

/*
 A structure as it was. Whatever reads structures takes it; writing to it is an error.
 */
terrace_status terrace_snapshot_map(terrace_snapshot *snapshot,
                                    const char *name,
                                    terrace_map **map,
                                    terrace_error **error);

/*
 What structures there were, as JSON.
 */
terrace_status terrace_snapshot_structures(terrace_snapshot *snapshot,
                                           terrace_bytes *json,
                                           terrace_error **error);

/*
 The instant that it shows, in milliseconds since 1970, and the number of the last logged change that it has.
 Each may be NULL.
 */
terrace_status terrace_snapshot_instant(terrace_snapshot *snapshot,
                                        uint64_t *time_ms,
                                        uint64_t *sequence,
                                        terrace_error **error);

/*
 Adds a point to the backup set in the folder `set`, which is made if it is not there, while others go on.
 `options` may be NULL.
 */
terrace_status terrace_backup(terrace_db *db,
                              const char *set,
                              const terrace_backup_options *options,
                              terrace_bytes *report,
                              terrace_error **error);

/*
 Makes a new database in the directory `to` of the backup set in the folder `set`. `options` may be NULL.
 */
terrace_status terrace_restore(const char *set,
                               const char *to,
                               const terrace_restore_options *options,
                               terrace_bytes *report,
                               terrace_error **error);

/*
 The points of a backup set.
 */
terrace_status terrace_backup_list(const char *set, terrace_bytes *points, terrace_error **error);

/*
 Reads all of a backup set and checks it. `progress` may be NULL; it cannot cancel.
 */
terrace_status terrace_backup_verify(const char *set,
                                     terrace_progress progress,
                                     void *context,
                                     terrace_bytes *report,
                                     terrace_error **error);

/*
 Forgets all points of a backup set but the newest ones.
 */
terrace_status terrace_backup_prune(const char *set,
                                    size_t newest,
                                    terrace_bytes *report,
                                    terrace_error **error);

/*
 Copies the log to the backup set in a folder until terrace_follower_stop, or terrace_close. `options` may be
 NULL.
 */
terrace_status terrace_follow(terrace_db *db,
                              const char *set,
                              const terrace_follow_options *options,
                              terrace_follower **follower,
                              terrace_error **error);

/*
 Copies now what was written; `sequence`, the number of the last change that the set has, may be NULL.
 */
terrace_status terrace_follower_archive(terrace_follower *follower,
                                        uint64_t *sequence,
                                        terrace_error **error);

/*
 How far it is.
 */
terrace_status terrace_follower_status(terrace_follower *follower,
                                       terrace_bytes *status,
                                       terrace_error **error);

/*
 Copies the rest, stops, and gives the follower back. Twice, or NULL, is nothing.
 */
terrace_status terrace_follower_stop(terrace_follower *follower, terrace_error **error);

/*
 Begins to load. End it with terrace_loader_finish or terrace_loader_destroy.
 */
terrace_status terrace_loader_create(terrace_map *map, terrace_loader **loader, terrace_error **error);

/*
 Adds a record, in any order.
 */
terrace_status terrace_loader_put(terrace_loader *loader,
                                  terrace_slice key,
                                  terrace_slice value,
                                  terrace_error **error);

/*
 Writes what was added, with a terrace_durability, and gives the loader back. `records` says how many, each key
 counted once; it may be NULL.
 */
terrace_status terrace_loader_finish(terrace_loader *loader,
                                     uint32_t durability,
                                     uint64_t *records,
                                     terrace_error **error);

/*
 Gives back a loader; what was added is forgotten, but for what was written already. Twice, or NULL, is nothing.
 */
void terrace_loader_destroy(terrace_loader *loader);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_H */

/* As fast as it goes; for rates, which else are bytes a second, or 0 for so slow that others hardly notice. */
#define TERRACE_FAST UINT64_MAX
/* The length that terrace_get_into says where there is no value. */
#define TERRACE_NONE SIZE_MAX
/* The first byte of the first record in a window. */
#define TERRACE_WINDOW_HEAD 4
/* The age of a snapshot that is made now. */
#define TERRACE_NOW 0
/* A wait without end, and until when a record is there that does not expire. */
#define TERRACE_FOREVER UINT64_MAX
/* The first byte of the first change in a commit. */
#define TERRACE_COMMIT_HEAD 77

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that are lent. */
static inline terrace_slice terrace_slice_of(const void *data, size_t len) {
    terrace_slice slice;
    slice.data = (const uint8_t *)data;
    slice.len = len;
    return slice;
}

/* A text that ends with a zero byte, without that byte. */
static inline terrace_slice terrace_str(const char *text) {
    return terrace_slice_of(text, strlen(text));
}

#ifdef __cplusplus
}
#endif

/* The same, shouted. */
#define TERRACE_STR(text) terrace_str(text)

/* What options begin with: their size, and the default of everything. */
#define TERRACE_OPTIONS_INIT {sizeof(terrace_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define TERRACE_MAP_OPTIONS_INIT {sizeof(terrace_map_options), 0, 0, 0, 0, 0, 0, 0}
#define TERRACE_TRANSACTION_OPTIONS_INIT {sizeof(terrace_transaction_options), 0, 0, 0}
#define TERRACE_BACKUP_OPTIONS_INIT {sizeof(terrace_backup_options), 0, 0, 0, 0, 0}
#define TERRACE_RESTORE_OPTIONS_INIT {sizeof(terrace_restore_options), 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define TERRACE_FOLLOW_OPTIONS_INIT {sizeof(terrace_follow_options), 0, 0, 0}
#define TERRACE_CHANGES_OPTIONS_INIT {sizeof(terrace_changes_options), 0, 0, 0}
#define TERRACE_REMOVE_OPTIONS_INIT {sizeof(terrace_remove_options), 0, 0, 0, 0}
