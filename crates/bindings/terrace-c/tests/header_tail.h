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
#define TERRACE_OPTIONS_INIT {sizeof(terrace_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define TERRACE_MAP_OPTIONS_INIT {sizeof(terrace_map_options), 0, 0, 0, 0, 0, 0}
#define TERRACE_TRANSACTION_OPTIONS_INIT {sizeof(terrace_transaction_options), 0, 0, 0}
#define TERRACE_BACKUP_OPTIONS_INIT {sizeof(terrace_backup_options), 0, 0, 0, 0, 0}
#define TERRACE_RESTORE_OPTIONS_INIT {sizeof(terrace_restore_options), 0, 0, 0, 0, 0, 0, 0, 0, 0}
#define TERRACE_FOLLOW_OPTIONS_INIT {sizeof(terrace_follow_options), 0, 0, 0}
