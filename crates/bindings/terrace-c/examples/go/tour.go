// The same in Go, by cgo: calls may wait for a disk, and Go runs others meanwhile.
package main

// #include <stdlib.h>
// #include <terrace.h>
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// check ends the program with what went wrong.
func check(status C.terrace_status, err *C.terrace_error) {
	if status != C.TERRACE_OK {
		fmt.Fprintln(os.Stderr, C.GoString(C.terrace_error_message(err)))
		os.Exit(1)
	}
}

// slice lends bytes to a call; the pinner keeps them in place until it is unpinned.
func slice(pins *runtime.Pinner, text string) C.terrace_slice {
	bytes := []byte(text)
	if len(bytes) == 0 {
		return C.terrace_slice{}
	}
	pins.Pin(&bytes[0])
	return C.terrace_slice{data: (*C.uint8_t)(&bytes[0]), len: C.size_t(len(bytes))}
}

func lent(bytes C.terrace_slice) string {
	return string(unsafe.Slice((*byte)(bytes.data), int(bytes.len)))
}

func put(users *C.terrace_map, key, value string) {
	var pins runtime.Pinner
	defer pins.Unpin()
	var err *C.terrace_error
	check(C.terrace_put(users, slice(&pins, key), slice(&pins, value), &err), err)
}

func get(users *C.terrace_map, key string) (string, bool) {
	var pins runtime.Pinner
	defer pins.Unpin()
	var err *C.terrace_error
	var value C.terrace_bytes
	check(C.terrace_get(users, slice(&pins, key), &value, &err), err)
	defer C.terrace_bytes_free(&value)
	return C.GoStringN((*C.char)(unsafe.Pointer(value.data)), C.int(value.len)), value.data != nil
}

func main() {
	var err *C.terrace_error
	var db *C.terrace_db
	var users *C.terrace_map
	options := C.terrace_options{size: C.sizeof_terrace_options, memory_bytes: 64 << 20}
	path, name := C.CString(os.Args[1]), C.CString("users")
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(name))
	check(C.terrace_open(path, &options, &db, &err), err)
	check(C.terrace_tree(db, name, nil, &users, &err), err)
	put(users, "alice", "Berlin")
	put(users, "bob", "Rome")
	if city, ok := get(users, "alice"); ok {
		fmt.Println("alice lives in", city)
	}
	var cursor *C.terrace_cursor
	var key, value C.terrace_slice
	check(C.terrace_range(users, nil, nil, false, &cursor, &err), err)
	for {
		check(C.terrace_cursor_next(cursor, &key, &value, &err), err)
		if key.data == nil {
			break
		}
		fmt.Printf("%s: %s\n", lent(key), lent(value))
	}
	C.terrace_cursor_close(cursor)
	check(C.terrace_close(db, &err), err)
}
