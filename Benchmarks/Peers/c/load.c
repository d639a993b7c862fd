// SPDX-License-Identifier: Apache-2.0

// Load on an echo server on this machine: one thread, an epoll set. Each connection sends a message, reads it back,
// and begins anew.
//
//     load echo  <port> <connections> <bytes> <seconds>   prints round trips, and their 99th percentile in microseconds
//     load idle  <port> <connections>                     one round trip each, prints "open", keeps them until its input ends
//     load churn <port> <a second> <seconds>              connects, one round trip, closes; prints successes and failures
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int connect_to(int port) {
  int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  if (connection < 0) fail("load: socket");
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(connection, (struct sockaddr *)&address, sizeof address) != 0) {
    close(connection);
    return -1;
  }
  return connection;
}

// Sends one message and reads it back, by blocking calls. Returns whether it came back.
static int round_trip(int connection) {
  char message[64] = "hello", answer[64];
  if (send(connection, message, sizeof message, MSG_NOSIGNAL) != sizeof message) return 0;
  return recv(connection, answer, sizeof answer, MSG_WAITALL) == sizeof answer;
}

struct peer {
  int descriptor;
  size_t sent, received;
  uint64_t began;
};

static int compare(const void *one, const void *other) {
  uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
  return (a > b) - (a < b);
}

// Sends what is left of the peer's message, as far as there is room.
static void send_on(struct peer *peer, const char *message, size_t size) {
  while (peer->sent < size) {
    ssize_t count = send(peer->descriptor, message + peer->sent, size - peer->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) fail("load: send");
    peer->sent += (size_t)count;
  }
}

static void echo(int port, int connections, size_t size, double seconds) {
  enum { kept = 1 << 20 };  // the newest times
  struct peer *peers = calloc((size_t)connections, sizeof *peers);
  char *message = calloc(1, size), *answer = malloc(size);
  uint32_t *times = malloc(kept * sizeof *times);
  uint64_t count = 0, end = now() + (uint64_t)(seconds * 1e9);
  int set = epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; i < connections; i++) {
    peers[i] = (struct peer){.descriptor = connect_to(port), .began = now()};
    if (peers[i].descriptor < 0) fail("load: connect");
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &peers[i]};
    epoll_ctl(set, EPOLL_CTL_ADD, peers[i].descriptor, &event);
  }
  for (int i = 0; i < connections; i++) send_on(&peers[i], message, size);
  struct epoll_event events[256];
  while (now() < end) {
    int ready = epoll_wait(set, events, 256, 100);
    for (int i = 0; i < ready; i++) {
      struct peer *peer = events[i].data.ptr;
      for (;;) {
        send_on(peer, message, size);
        ssize_t got = recv(peer->descriptor, answer, size - peer->received, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) break;
        if (got <= 0) fail("load: receive");
        peer->received += (size_t)got;
        if (peer->received < size) continue;
        uint64_t time = now();
        times[count++ % kept] = (uint32_t)((time - peer->began) / 1000);
        *peer = (struct peer){.descriptor = peer->descriptor, .began = time};
        send_on(peer, message, size);
      }
    }
  }
  size_t known = count < kept ? (size_t)count : kept;
  qsort(times, known, sizeof *times, compare);
  printf("round trips %llu p99 %u\n", (unsigned long long)count, known ? times[known * 99 / 100] : 0);
}

static void idle(int port, int connections) {
  for (int i = 0; i < connections; i++) {
    int connection = connect_to(port);
    if (connection < 0 || !round_trip(connection)) fail("load: a connection");
  }
  printf("open\n");
  fflush(stdout);
  while (getchar() != EOF) {
  }
}

static void churn(int port, int rate, double seconds) {
  uint64_t begin = now(), count = 0, failed = 0, total = (uint64_t)(rate * seconds);
  for (; count < total; count++) {
    // At its due time, not as early as possible.
    uint64_t due = begin + count * 1000000000u / (uint64_t)rate, time = now();
    if (due > time) {
      struct timespec rest = {.tv_sec = (time_t)((due - time) / 1000000000u), .tv_nsec = (long)((due - time) % 1000000000u)};
      nanosleep(&rest, NULL);
    }
    int connection = connect_to(port);
    if (connection < 0 || !round_trip(connection)) failed++;
    if (connection < 0) continue;
    // A reset closes the peer's socket at once, without the minute in which the port stays taken.
    struct linger at_once = {.l_onoff = count % 2 == 0, .l_linger = 0};
    setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(connection);
  }
  printf("connections %llu failed %llu in %.1f s\n", (unsigned long long)count, (unsigned long long)failed,
         (double)(now() - begin) / 1e9);
}

int main(int count, char **arguments) {
  if (count == 6 && strcmp(arguments[1], "echo") == 0)
    echo(atoi(arguments[2]), atoi(arguments[3]), (size_t)atol(arguments[4]), atof(arguments[5]));
  else if (count == 4 && strcmp(arguments[1], "idle") == 0)
    idle(atoi(arguments[2]), atoi(arguments[3]));
  else if (count == 5 && strcmp(arguments[1], "churn") == 0)
    churn(atoi(arguments[2]), atoi(arguments[3]), atof(arguments[4]));
  else {
    fprintf(stderr, "load: see the head of its source\n");
    return 2;
  }
}
