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
