// SPDX-License-Identifier: Apache-2.0

// An HTTP server with keep-alive and a fixed answer on Go's net: a goroutine per connection, one read and one write
// per request. With the word `echo` after the port it sends back what it reads.
package main

import (
	"fmt"
	"net"
	"os"
)

var answer = []byte("HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!")

func serve(connection net.Conn) {
	defer connection.Close()
	request := make([]byte, 4096)
	for {
		if _, err := connection.Read(request); err != nil {
			return
		}
		if _, err := connection.Write(answer); err != nil {
			return
		}
	}
}

func echo(connection net.Conn) {
	defer connection.Close()
	bytes := make([]byte, 65536)
	for {
		count, err := connection.Read(bytes)
		if err != nil {
			return
		}
		if _, err := connection.Write(bytes[:count]); err != nil {
			return
		}
	}
}

func main() {
	handle := serve
	if len(os.Args) > 2 && os.Args[2] == "echo" {
		handle = echo
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:"+os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go handle(connection)
	}
}
