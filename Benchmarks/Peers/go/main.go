// SPDX-License-Identifier: Apache-2.0

// What Go has for the work of the benchmarks. It reads requests from the standard input, one per line: `run`, the
// workload's name, the system's, a number of operations, separated by tabs. The answer is the time in nanoseconds,
// what the loop computed, and, where memory is measured, by how many bytes the process grew.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// The result of a run. It has bytes only where hasBytes is set.
type reading struct {
	time     time.Duration
	computed int
	bytes    int
	hasBytes bool
}

type loop func(operations int) reading

// A loop that is timed as a whole.
func timed(work func(operations int) int) loop {
	return func(operations int) reading {
		start := time.Now()
		computed := work(operations)
		return reading{time: time.Since(start), computed: computed}
	}
}

// By the workload's name and the system's, as in the request.
var loops = map[string]loop{
	"yield, one turn of two\tGo, runtime.Gosched":                                timed(takeTurns),
	"spawn and join, one at a time\tGo, go and channel":                          timed(spawnOne),
	"spawn 10,000, join all; one of them\tGo, go and WaitGroup":                  timed(spawnMany),
	"generator, Int\tGo, goroutine and channel":                                  timed(generate),
	"tree walk of a million nodes, one node\tGo, goroutine and channel":          timed(walkTrees),
	"rendezvous, round trip over two channels\tGo, unbuffered channels":          timed(roundTrips),
	"channel without a buffer, 1 to 1, one message\tGo, channel":                 timed(messages(0, 1)),
	"channel without a buffer, 4 to 4, one message\tGo, channel":                 timed(messages(0, 4)),
	"channel with a buffer of 100, 1 to 1, one message\tGo, channel":             timed(messages(100, 1)),
	"channel with a buffer of 100, 4 to 4, one message\tGo, channel":             timed(messages(100, 4)),
	"channel with a buffer, sent and received by one\tGo, channel":               timed(alone),
	"select of four, all ready, and one send\tGo, select":                        timed(selectOfFour),
	"mutex, uncontended\tGo, sync.Mutex":                                         timed(lock),
	"mutex, wanted by four that yield inside\tGo, sync.Mutex":                    timed(lockByFour),
	"actor, ask, one caller\tGo, channel and channel of answers":                 timed(ask),
	"actor, ask, two callers\tGo, channel and channels of answers":               timed(askByTwo),
	"actor, tell, received and handled\tGo, channel with a buffer of 100":        timed(tell),
	"100,000 timers of 10 ms, all of them\tGo, time.Sleep":                       timed(sleep),
	"100,000 timers of 10 ms in a new process, one of them\tGo, time.Sleep":      timed(sleep),
	"skynet of a million, all of it\tGo, channel":                                timed(skynet),
	"skynet of a million in a new process, one leaf\tGo, channel":                timed(skynet),
	"skynet of 100,000 over channels, all of it\tGo, channel":                    timed(skynet),
	"skynet of 100,000 over channels in a new process, one leaf\tGo, channel":    timed(skynet),
	"dump of 100,000 coroutines, one of them\tGo, runtime.Stack":                 dump,
	"1,000 created and suspended, one of them\tGo, channel":                      suspended(true),
	"10,000 created and suspended, one of them\tGo, channel":                     suspended(true),
	"100,000 created and suspended, one of them\tGo, channel":                    suspended(true),
	"1,000,000 created and suspended, one of them\tGo, channel":                  suspended(true),
	"1,000 created and suspended, one of them\tGo, channel, GOGC=off":            suspended(false),
	"10,000 created and suspended, one of them\tGo, channel, GOGC=off":           suspended(false),
	"100,000 created and suspended, one of them\tGo, channel, GOGC=off":          suspended(false),
	"1,000,000 created and suspended, one of them\tGo, channel, GOGC=off":        suspended(false),
	"100,000 suspended ended and trimmed, one of them\tGo, close of a channel":   ended,
	"1,000,000 suspended ended and trimmed, one of them\tGo, close of a channel": ended,
}

func answer(request []string) string {
	if len(request) != 4 || request[0] != "run" {
		return "error\tnot a request to run"
	}
	work, known := loops[request[1]+"\t"+request[2]]
	operations, err := strconv.Atoi(request[3])
	if !known || err != nil {
		return "error\tdoes not know " + strings.Join(request, ", ")
	}
	read := work(operations)
	text := fmt.Sprintf("%d\t%d", read.time.Nanoseconds(), read.computed)
	if read.hasBytes {
		text += fmt.Sprintf("\t%d", read.bytes)
	}
	return text
}

func main() {
	requests := bufio.NewScanner(os.Stdin)
	for requests.Scan() {
		fmt.Println(answer(strings.Split(requests.Text(), "\t")))
	}
}
