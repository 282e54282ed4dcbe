package main

// CUDA's own answers, by its library where there is one: nothing is linked to it.

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>

static void *cuda;

static int call_init(void) {
	int (*init)(unsigned int);
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda || !(init = dlsym(cuda, "cuInit"))) return -1;
	return init(0);
}

static int call_count(int *count) {
	int (*get)(int *) = dlsym(cuda, "cuDeviceGetCount");
	return get ? get(count) : -1;
}

static int call_uuid(int n, unsigned char *uuid) {
	int device;
	int (*get)(int *, int) = dlsym(cuda, "cuDeviceGet");
	int (*name)(unsigned char *, int) = dlsym(cuda, "cuDeviceGetUuid_v2");
	if (!name) name = dlsym(cuda, "cuDeviceGetUuid");
	if (!get || !name) return -1;
	int result = get(&device, n);
	return result ? result : name(uuid, device);
}

static int call_hold(size_t bytes) {
	int device, result;
	void *context;
	unsigned long long memory;
	int (*get)(int *, int) = dlsym(cuda, "cuDeviceGet");
	int (*retain)(void **, int) = dlsym(cuda, "cuDevicePrimaryCtxRetain");
	int (*use)(void *) = dlsym(cuda, "cuCtxSetCurrent");
	int (*allocate)(unsigned long long *, size_t) = dlsym(cuda, "cuMemAlloc_v2");
	if (!get || !retain || !use || !allocate) return -1;
	if ((result = get(&device, 0)) || (result = retain(&context, device)) || (result = use(context))) return result;
	return allocate(&memory, bytes);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// errNoDevice is CUDA's number for a process that sees no GPU.
const errNoDevice = 100

// held is how much memory a process takes: enough to be noticed where processes
// cannot be seen, and there on any GPU.
const held = 1536 << 20

// printDevices prints the UUID of every GPU that this process sees.
func printDevices() int {
	if result := C.call_init(); result == errNoDevice {
		return right
	} else if result != 0 {
		return cudaFailed("initialise CUDA", int(result))
	}
	var count C.int
	if result := C.call_count(&count); result != 0 {
		return cudaFailed("count devices", int(result))
	}
	for n := range int(count) {
		var uuid [16]C.uchar
		if result := C.call_uuid(C.int(n), &uuid[0]); result != 0 {
			return cudaFailed("name a device", int(result))
		}
		fmt.Println(named(uuid))
	}
	return right
}

// named spells a UUID as CUDA_VISIBLE_DEVICES does. CUDA does not say whether it
// is a MIG device's; the variable does.
func named(uuid [16]C.uchar) string {
	kind := "GPU"
	if visible := os.Getenv("CUDA_VISIBLE_DEVICES"); len(visible) > 3 && visible[:3] == "MIG" {
		kind = "MIG"
	}
	var b [16]byte
	for i := range uuid {
		b[i] = byte(uuid[i])
	}
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// holdMemory takes memory of the first GPU that this process sees, says so, and
// stays until it is killed.
func holdMemory() int {
	runtime.LockOSThread()
	if result := C.call_init(); result != 0 {
		return cudaFailed("initialise CUDA", int(result))
	}
	if result := C.call_hold(held); result != 0 {
		return cudaFailed("take memory", int(result))
	}
	fmt.Println("holding")
	time.Sleep(limit)
	return right
}

func cudaFailed(what string, result int) int {
	fmt.Fprintf(os.Stderr, "cannot %s: CUDA says %d\n", what, result)
	return wrong
}
