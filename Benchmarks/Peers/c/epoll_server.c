// SPDX-License-Identifier: Apache-2.0

// The least that an HTTP server with keep-alive and a fixed answer costs: one thread, a level-triggered epoll set,
// one read and one write per request. The rest is the kernel's TCP. What other servers take beyond this is their own
// cost. With the word `echo` after the port it sends back what it reads.
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!";

static int listen_at(int port) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4096) != 0) {
    perror("epoll_server");
    exit(1);
  }
  return listener;
}

// Sends all of it. Where there is no room it waits, and so delays all connections of its one thread.
static int send_all(int descriptor, const char *bytes, ssize_t count) {
  while (count > 0) {
    ssize_t sent = send(descriptor, bytes, (size_t)count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      struct pollfd room = {.fd = descriptor, .events = POLLOUT};
      poll(&room, 1, -1);
      continue;
    }
    if (sent < 0) return 0;
    bytes += sent;
    count -= sent;
  }
  return 1;
}

int main(int count, char **arguments) {
  int listener = listen_at(count > 1 ? atoi(arguments[1]) : 8080), set = epoll_create1(EPOLL_CLOEXEC), one = 1;
  int echoes = count > 2 && strcmp(arguments[2], "echo") == 0;
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
  epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int ready = epoll_wait(set, events, 256, -1);
    for (int i = 0; i < ready; i++) {
      int descriptor = events[i].data.fd;
      if (descriptor == listener) {
        int connection;
        while ((connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
          setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
          event.data.fd = connection;
          epoll_ctl(set, EPOLL_CTL_ADD, connection, &event);
        }
        continue;
      }
      static char request[65536];
      ssize_t got = recv(descriptor, request, echoes ? sizeof request : 4096, 0);
      if (got <= 0 || !send_all(descriptor, echoes ? request : answer, echoes ? got : (ssize_t)sizeof answer - 1))
        close(descriptor);
    }
  }
}
