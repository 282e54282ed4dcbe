package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
)

// profileVariable names a directory to which a host writes its processor profile
// when it ends, for `make bench`.
const profileVariable = "PERENNIAL_PROFILE"

// profile begins a host's profile where one is wanted; the function it returns
// ends it.
func profile() (end func()) {
	directory := os.Getenv(profileVariable)
	if directory == "" || !slices.Contains(os.Args, "--background") {
		return func() {}
	}
	file, err := os.Create(filepath.Join(directory, fmt.Sprintf("host-%d.pprof", os.Getpid())))
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}
}
