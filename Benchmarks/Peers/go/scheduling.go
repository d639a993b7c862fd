// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Two goroutines that let each other run in turn.
func takeTurns(turns int) int {
	other := make(chan int)
	take := func() int {
		taken := 0
		for ; taken < turns/2; taken++ {
			runtime.Gosched()
		}
		return taken
	}
	go func() { other <- take() }()
	taken := take()
	return taken + <-other
}

func spawnOne(count int) int {
	finished := 0
	for i := 0; i < count; i++ {
		done := make(chan int, 1)
		go func() { done <- 1 }()
		finished += <-done
	}
	return finished
}

func spawnMany(count int) int {
	const batch = 10_000
	var finished int64
	for i := 0; i < count/batch; i++ {
		var group sync.WaitGroup
		group.Add(batch)
		for j := 0; j < batch; j++ {
			go func() {
				atomic.AddInt64(&finished, 1)
				group.Done()
			}()
		}
		group.Wait()
	}
	return int(finished)
}

func lock(count int) int {
	var mutex sync.Mutex
	sum := 0
	for i := 0; i < count; i++ {
		mutex.Lock()
		sum++
		mutex.Unlock()
	}
	return sum
}

func lockByFour(count int) int {
	var mutex sync.Mutex
	var group sync.WaitGroup
	sum := 0
	group.Add(4)
	for i := 0; i < 4; i++ {
		go func() {
			for j := 0; j < count/4; j++ {
				mutex.Lock()
				sum++
				runtime.Gosched()
				mutex.Unlock()
			}
			group.Done()
		}()
	}
	group.Wait()
	return sum
}

func sleep(count int) int {
	var group sync.WaitGroup
	var woken int64
	group.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			time.Sleep(10 * time.Millisecond)
			atomic.AddInt64(&woken, 1)
			group.Done()
		}()
	}
	group.Wait()
	return int(woken)
}

// A tree of goroutines, with ten below each, except for the leaves.
func skynet(leaves int) int {
	results := make(chan int)
	go skynetNode(0, leaves, results)
	return <-results
}

func skynetNode(first, leaves int, results chan int) {
	if leaves == 1 {
		results <- first
		return
	}
	below := make(chan int)
	for part := 0; part < 10; part++ {
		go skynetNode(first+part*(leaves/10), leaves/10, below)
	}
	sum := 0
	for part := 0; part < 10; part++ {
		sum += <-below
	}
	results <- sum
}
