// SPDX-License-Identifier: Apache-2.0

package main

import "sync"

func roundTrips(count int) int {
	questions, answers, ended := make(chan int), make(chan int), make(chan bool)
	go func() {
		for question := range questions {
			answers <- question + 1
		}
		ended <- true
	}()
	number := 0
	for i := 0; i < count; i++ {
		questions <- number
		number = <-answers
	}
	close(questions)
	<-ended
	return number
}

// From as many senders to as many receivers. The result is what the receivers count.
func messages(capacity, pairs int) func(int) int {
	return func(count int) int {
		channel := make(chan int, capacity)
		received := make(chan int, pairs)
		var senders sync.WaitGroup
		senders.Add(pairs)
		for pair := 0; pair < pairs; pair++ {
			go func() {
				for i := 0; i < count/pairs; i++ {
					channel <- i
				}
				senders.Done()
			}()
			go func() {
				sum := 0
				for range channel {
					sum++
				}
				received <- sum
			}()
		}
		senders.Wait()
		close(channel)
		sum := 0
		for pair := 0; pair < pairs; pair++ {
			sum += <-received
		}
		return sum
	}
}

// A channel on which neither side ever has to wait.
func alone(count int) int {
	channel := make(chan int, 100)
	received := 0
	for i := 0; i < count; i++ {
		channel <- i
		if <-channel == i {
			received++
		}
	}
	return received
}

// Four channels with an element each. The element that was received is sent back.
func selectOfFour(count int) int {
	var channels [4]chan int
	for i := range channels {
		channels[i] = make(chan int, 1)
		channels[i] <- i
	}
	first, second, third, fourth := channels[0], channels[1], channels[2], channels[3]
	chosen := 0
	for i := 0; i < count; i++ {
		var index int
		select {
		case index = <-first:
		case index = <-second:
		case index = <-third:
		case index = <-fourth:
		}
		channels[index] <- index
		chosen++
	}
	return chosen
}

// A message to a goroutine that keeps a count. It has a channel for the answer, if one is wanted.
type counting struct {
	answer chan int
}

func counter(capacity int) chan counting {
	mailbox := make(chan counting, capacity)
	go func() {
		count := 0
		for message := range mailbox {
			count++
			if message.answer != nil {
				message.answer <- count
			}
		}
	}()
	return mailbox
}

func askSoOften(mailbox chan counting, count int) int {
	answer := make(chan int, 1)
	last := 0
	for i := 0; i < count; i++ {
		mailbox <- counting{answer}
		last = <-answer
	}
	return last
}

func ask(count int) int {
	mailbox := counter(100)
	defer close(mailbox)
	return askSoOften(mailbox, count)
}

func askByTwo(count int) int {
	mailbox := counter(100)
	defer close(mailbox)
	var callers sync.WaitGroup
	callers.Add(2)
	for i := 0; i < 2; i++ {
		go func() {
			askSoOften(mailbox, count/2)
			callers.Done()
		}()
	}
	callers.Wait()
	return askSoOften(mailbox, 1) - 1
}

// The last message asks for an answer, so that all have been handled.
func tell(count int) int {
	mailbox := counter(100)
	defer close(mailbox)
	for i := 0; i < count-1; i++ {
		mailbox <- counting{}
	}
	return askSoOften(mailbox, 1)
}

// A goroutine in the place of a generator's body.
func generate(count int) int {
	elements := make(chan int)
	go func() {
		for i := 0; i < count; i++ {
			elements <- i
		}
		close(elements)
	}()
	sum := 0
	for element := range elements {
		sum += element
	}
	return sum
}

type node struct {
	number      int
	left, right *node
}

const million = 1<<20 - 1

var root *node

// A complete tree, numbered from left to right.
func makeTree(nodes []node, count, first int) (*node, []node) {
	if count == 0 {
		return nil, nodes
	}
	made, rest := &nodes[0], nodes[1:]
	below := (count - 1) / 2
	made.number = first + below
	made.left, rest = makeTree(rest, below, first)
	made.right, rest = makeTree(rest, count-1-below, first+below+1)
	return made, rest
}

func walkTrees(count int) int {
	if root == nil {
		root, _ = makeTree(make([]node, million), million, 0)
	}
	sum := 0
	for i := 0; i < count/million; i++ {
		numbers := make(chan int)
		go func() {
			walk(root, numbers)
			close(numbers)
		}()
		for number := range numbers {
			sum += number
		}
	}
	return sum
}

func walk(node *node, numbers chan int) {
	if node == nil {
		return
	}
	walk(node.left, numbers)
	numbers <- node.number
	walk(node.right, numbers)
}
