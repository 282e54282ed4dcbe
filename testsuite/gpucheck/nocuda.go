//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func printDevices() int { return withoutCGO() }

func holdMemory() int { return withoutCGO() }

func withoutCGO() int {
	fmt.Fprintln(os.Stderr, "this program was built without cgo, by which CUDA is asked")
	return wrong
}
