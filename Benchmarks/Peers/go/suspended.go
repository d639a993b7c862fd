// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The memory that the process has, page tables included.
func memory() int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	kibibytes := 0
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "VmPTE:") {
			number, err := strconv.Atoi(strings.Fields(line)[1])
			if err != nil {
				panic(err)
			}
			kibibytes += number
		}
	}
	return kibibytes << 10
}

// Goroutines that wait for a channel.
type waiting struct {
	sync.WaitGroup
	// How many have begun, and how many have seen the channel closed.
	begun, closed int64
}

// Returns when all `count` goroutines have begun.
func suspend(count int, wait chan int) *waiting {
	all := new(waiting)
	all.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			atomic.AddInt64(&all.begun, 1)
			if _, sent := <-wait; !sent {
				atomic.AddInt64(&all.closed, 1)
			}
			all.Done()
		}()
	}
	for int(atomic.LoadInt64(&all.begun)) < count {
		runtime.Gosched()
	}
	return all
}

func suspended(collects bool) loop {
	return func(count int) reading {
		if !collects {
			debug.SetGCPercent(-1)
		}
		wait := make(chan int)
		before := memory()
		start := time.Now()
		all := suspend(count, wait)
		took := time.Since(start)
		grown := memory() - before
		begun := int(atomic.LoadInt64(&all.begun))
		close(wait)
		all.Wait()
		return reading{took, begun, grown, true}
	}
}

func ended(count int) reading {
	wait := make(chan int)
	before := memory()
	all := suspend(count, wait)
	start := time.Now()
	close(wait)
	all.Wait()
	took := time.Since(start)
	debug.FreeOSMemory()
	return reading{took, int(atomic.LoadInt64(&all.closed)), memory() - before, true}
}

var dumped []byte

// The text of all stacks while `count` goroutines wait. The buffer is made, and its pages touched, before the
// measurement.
func dump(count int) reading {
	if len(dumped) < 512*count {
		dumped = bytes.Repeat([]byte{' '}, 512*count)
	}
	wait := make(chan int)
	all := suspend(count, wait)
	start := time.Now()
	size := runtime.Stack(dumped, true)
	took := time.Since(start)
	close(wait)
	all.Wait()
	computed := bytes.Count(dumped[:size], []byte("goroutine "))
	// At least `count`: newer versions of Go name each goroutine once more, in the line with its creator.
	if computed >= count {
		computed = count
	}
	return reading{took, computed, 0, false}
}
