// Gpucheck shows on a machine with NVIDIA GPUs that what starter does with them is
// right: that NVML and nvidia-smi tell the same, that no two trials get the same
// GPU and each sees its own, that strangers are noticed, and that `starter gpus`
// shows all that. It is one file that needs no network; `make gpu-check` builds it.
//
// Exit codes: 0 all is right, 1 something is not, 2 there is no GPU.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// limit bounds the whole check: far more than it takes.
const limit = 5 * time.Minute

// Exit codes.
const (
	right = iota
	wrong
	noGPU
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(asTrial(os.Args[1]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	code := check(ctx)
	stop()
	os.Exit(code)
}

func check(ctx context.Context) int {
	c := &checker{ctx: ctx}
	defer c.clear()
	if !c.inventories() {
		fmt.Println("\nno GPU here: run this where nvidia-smi shows one")
		return noGPU
	}
	for _, part := range []func(){c.exclusion, c.sight, c.strangers, c.company, c.orphans} {
		if ctx.Err() == nil {
			part()
		}
	}
	if c.failed > 0 || ctx.Err() != nil {
		fmt.Printf("\n%d of %d checks failed %v\n", c.failed, c.made, ctx.Err())
		return wrong
	}
	fmt.Printf("\nall %d checks passed\n", c.made)
	return right
}

// asTrial is what this program does as a trial, or as a stranger.
func asTrial(word string) int {
	switch word {
	case "devices":
		return printDevices()
	case "hold":
		return holdMemory()
	}
	fmt.Fprintln(os.Stderr, "gpu-check takes no arguments")
	return wrong
}
