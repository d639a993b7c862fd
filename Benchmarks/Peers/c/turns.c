// SPDX-License-Identifier: Apache-2.0

// Load on several servers on this machine, one after the other for a moment each, again and again: so what else the machine
// does, and what it has in its caches, meets them alike. One thread; each connection sends a request, waits for the whole answer,
// and begins anew.
//
//     turns http|<bytes of an echo> <connections to each> <turns> <milliseconds of a turn> <process>:<port>...
//
// Prints a line for each server: the 99th percentile of the time of a request in microseconds, and then, for each turn, the
// server's processor time for a request in microseconds.
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

enum { kept = 1 << 20 };  // the newest times of requests

struct peer {
  int descriptor;
  size_t sent, received;
  uint64_t began;
};

struct server {
  int process, port, set;
  struct peer *peers;
  size_t answer_size;
  uint32_t *times;
  uint64_t count;   // of times that were known
  double *samples;  // of each turn
};

static const char *request;
static size_t request_size;
static char answer[1 << 17];

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static uint64_t read_clock(clockid_t clock) {
  struct timespec time;
  if (clock_gettime(clock, &time) != 0) fail("turns: a clock");
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t now(void) { return read_clock(CLOCK_MONOTONIC); }

static void refuse(const char *what, int port) {
  fprintf(stderr, "turns: %s, from port %d\n", what, port);
  exit(1);
}

// Of another process the kernel tells what was used up to the last tick, or up to its last sleep. So the server must sleep.
static uint64_t processor_time(const struct server *server) {
  struct timespec pause = {.tv_nsec = 3000000};
  nanosleep(&pause, NULL);
  clockid_t clock;
  if ((errno = clock_getcpuclockid(server->process, &clock)) != 0) fail("turns: a server's process");
  return read_clock(clock);
}

static int connect_to(int port) {
  int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  if (connection < 0) fail("turns: socket");
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(connection, (struct sockaddr *)&address, sizeof address) != 0) fail("turns: connect");
  return connection;
}

// The size of an answer of HTTP, with its body.
static size_t size_of_answer(int port) {
  int connection = connect_to(port);
  size_t size = 0;
  char *end, *length;
  if (send(connection, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) fail("turns: send");
  for (;;) {
    ssize_t got = recv(connection, answer + size, sizeof answer - 1 - size, 0);
    if (got <= 0) refuse("no first answer", port);
    answer[size += (size_t)got] = 0;
    if ((end = strstr(answer, "\r\n\r\n")) == NULL) continue;
    if ((length = strcasestr(answer, "\r\ncontent-length:")) == NULL || length > end) refuse("an answer without its length", port);
    size_t whole = (size_t)(end + 4 - answer) + (size_t)atol(length + 17);
    if (size < whole) continue;
    close(connection);
    return whole;
  }
}

// Sends what is left of the request, as far as there is room.
static void send_on(struct peer *peer) {
  while (peer->sent < request_size) {
    ssize_t count = send(peer->descriptor, request + peer->sent, request_size - peer->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) fail("turns: send");
    peer->sent += (size_t)count;
  }
}

// `time`: 0 if the request is one of the many that begin at once, whose times are not those of a request in the middle.
static void begin(struct peer *peer, uint64_t time) {
  *peer = (struct peer){.descriptor = peer->descriptor, .began = time};
  send_on(peer);
}

// Takes what has come. Returns whether the answer is whole.
static int receive_on(struct server *server, struct peer *peer) {
  for (;;) {
    send_on(peer);
    // A byte more than is to come: a longer answer is an error.
    ssize_t got = recv(peer->descriptor, answer, server->answer_size - peer->received + 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) refuse("the end of a connection", server->port);
    if (peer->received == 0 && request[0] == 'G' && got > 12 && memcmp(answer + 9, "200", 3) != 0)
      refuse("another answer than 200", server->port);
    peer->received += (size_t)got;
    if (peer->received < server->answer_size) continue;
    if (peer->received > server->answer_size) refuse("an answer longer than the first one", server->port);
    return 1;
  }
}

// Loads a server for some time, and waits for the last answers. Returns its processor time for a request, in microseconds.
static double turn(struct server *server, int connections, uint64_t duration) {
  struct epoll_event events[256];
  uint64_t before = processor_time(server), end = now() + duration, count = 0;
  int busy = connections;
  for (int i = 0; i < connections; i++) begin(&server->peers[i], 0);
  while (busy > 0) {
    int ready = epoll_wait(server->set, events, 256, 10000);
    if (ready < 0 && errno != EINTR) fail("turns: wait");
    if (ready == 0) refuse("no whole answer for ten seconds", server->port);
    for (int i = 0; i < ready; i++) {
      struct peer *peer = events[i].data.ptr;
      // One that is idle, or an event for room to send.
      if (peer->received >= server->answer_size || !receive_on(server, peer)) continue;
      count++;
      uint64_t time = now();
      if (peer->began != 0) server->times[server->count++ % kept] = (uint32_t)((time - peer->began) / 1000);
      if (time < end) {
        begin(peer, time);
      } else {
        busy--;
      }
    }
  }
  return (double)(processor_time(server) - before) / 1000 / (double)count;
}

static int compare(const void *one, const void *other) {
  uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
  return (a > b) - (a < b);
}

static void print(struct server *server, int turns) {
  size_t known = server->count < kept ? (size_t)server->count : kept;
  qsort(server->times, known, sizeof *server->times, compare);
  printf("%u", known ? server->times[known * 99 / 100] : 0);
  for (int i = 0; i < turns; i++) printf(" %.3f", server->samples[i]);
  printf("\n");
}

int main(int count, char **arguments) {
  if (count < 6) {
    fprintf(stderr, "turns: see the head of its source\n");
    return 2;
  }
  int is_http = strcmp(arguments[1], "http") == 0, connections = atoi(arguments[2]), turns = atoi(arguments[3]);
  uint64_t duration = (uint64_t)(atof(arguments[4]) * 1e6);
  request_size = is_http ? 0 : (size_t)atol(arguments[1]);
  // The kernel counts by ticks of 1 to 10 ms.
  if ((!is_http && request_size == 0) || request_size >= sizeof answer || connections < 1 || turns < 1 || duration < 20000000) {
    fprintf(stderr, "turns: a number that makes no sense; a turn takes 20 ms at least\n");
    return 2;
  }
  request = is_http ? "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" : calloc(1, request_size);
  if (is_http) request_size = strlen(request);

  int number = count - 5;
  struct server *servers = calloc((size_t)number, sizeof *servers);
  for (int i = 0; i < number; i++) {
    struct server *server = &servers[i];
    if (sscanf(arguments[5 + i], "%d:%d", &server->process, &server->port) != 2) return 2;
    server->answer_size = is_http ? size_of_answer(server->port) : request_size;
    server->peers = calloc((size_t)connections, sizeof *server->peers);
    server->times = malloc(kept * sizeof *server->times);
    server->samples = malloc((size_t)turns * sizeof *server->samples);
    if ((server->set = epoll_create1(EPOLL_CLOEXEC)) < 0) fail("turns: epoll");
    for (int k = 0; k < connections; k++) {
      server->peers[k].descriptor = connect_to(server->port);
      struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &server->peers[k]};
      if (epoll_ctl(server->set, EPOLL_CTL_ADD, server->peers[k].descriptor, &event) != 0) fail("turns: epoll");
    }
    // A second that is not measured, in which the server gets what it allocates once.
    turn(server, connections, 1000000000);
    server->count = 0;
  }
  // Forwards and backwards: a server finds what the one before it has left in the caches.
  for (int i = 0; i < turns; i++)
    for (int k = 0; k < number; k++) {
      struct server *server = &servers[i % 2 == 0 ? k : number - 1 - k];
      server->samples[i] = turn(server, connections, duration);
    }
  for (int k = 0; k < number; k++) print(&servers[k], turns);
}
