// Checks each login before its password is looked at, from Go by cgo. Reads one user a line, like
// the example login of the Rust library:
//
//	printf 'alice\nbob\n' | go run bindings/examples/go/login.go data
//
// pkg-config finds frs.h and libfrs.so, which bindings/c/install has installed.
package main

/*
#cgo pkg-config: frs
#include <stdlib.h>
#include <frs.h>

static int update(frs *handle, const char *biz, const char *key, size_t key_bytes,
                  frs_result *result)
{
	frs_item item = FRS_ITEM(biz, key);
	item.key_bytes = key_bytes;
	return frs_update(handle, &item, result);
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// Limits is an attachment to a server on this machine. It serves all goroutines.
type Limits struct {
	handle *C.frs
}

// Verdict is the answer on one use.
type Verdict struct {
	Limited            bool
	Remaining, RetryMs int64
}

// Error is a code of frs.h.
type Error struct {
	Code  int
	Words string
}

func (e Error) Error() string { return e.Words }

// Open attaches to the data directory of a server.
func Open(data string) (*Limits, error) {
	path := C.CString(data)
	defer C.free(unsafe.Pointer(path))
	// The message belongs to the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	limits := &Limits{}
	if code := C.frs_open(path, &limits.handle); code != 0 {
		return nil, Error{int(code), C.GoString(C.frs_message())}
	}
	return limits, nil
}

// Close releases the place.
func (limits *Limits) Close() { C.frs_close(limits.handle) }

// Update charges one use of a business by a key.
func (limits *Limits) Update(biz, key string) (Verdict, error) {
	cBiz, cKey := C.CString(biz), C.CString(key)
	defer C.free(unsafe.Pointer(cBiz))
	defer C.free(unsafe.Pointer(cKey))
	result := C.frs_result{size: C.sizeof_frs_result}
	code := C.update(limits.handle, cBiz, cKey, C.size_t(len(key)), &result)
	if code != 0 {
		return Verdict{}, Error{int(code), C.GoString(C.frs_strerror(code))}
	}
	return Verdict{result.limited != 0, int64(result.remaining), int64(result.retry_ms)}, nil
}

func main() {
	data := "data"
	if len(os.Args) > 1 {
		data = os.Args[1]
	}
	limits, err := Open(data)
	if err != nil {
		fmt.Fprintln(os.Stderr, "login:", err)
		os.Exit(1)
	}
	defer limits.Close()
	users := bufio.NewScanner(os.Stdin)
	for users.Scan() {
		user := users.Text()
		verdict, err := limits.Update("login", user)
		switch {
		case err != nil:
			fmt.Printf("%s: not judged: %v\n", user, err)
		case verdict.Limited:
			fmt.Printf("%s: no, try again in %d ms\n", user, verdict.RetryMs)
		default:
			fmt.Printf("%s: yes, %d more\n", user, verdict.Remaining)
		}
	}
}
