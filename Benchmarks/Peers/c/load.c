// SPDX-License-Identifier: Apache-2.0

// Connections to an echo server on this machine, by one thread.
//
//     load idle  <port> <connections>                     one round trip each, prints "open", keeps them until its input ends
//     load churn <port> <a second> <seconds>              connects, one round trip, closes; prints successes and failures
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
  if (count == 4 && strcmp(arguments[1], "idle") == 0)
    idle(atoi(arguments[2]), atoi(arguments[3]));
  else if (count == 5 && strcmp(arguments[1], "churn") == 0)
    churn(atoi(arguments[2]), atoi(arguments[3]), atof(arguments[4]));
  else {
    fprintf(stderr, "load: see the head of its source\n");
    return 2;
  }
}
