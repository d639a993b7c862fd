#include "CCoroutineTests.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

struct call {
  void (*callback)(void *context);
  void *context;
};

static void *make_call(void *argument) {
  struct call call = *(struct call *)argument;
  free(argument);
  call.callback(call.context);
  return NULL;
}

int coroutine_test_call_on_thread(pthread_t *thread, void (*callback)(void *context), void *context) {
  struct call *call = malloc(sizeof *call);
  if (call == NULL) return ENOMEM;
  *call = (struct call){.callback = callback, .context = context};
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    sigset_t all, before;
    sigfillset(&all);
    error = pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error == 0) error = pthread_create(thread, &attributes, make_call, call);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
  }
  if (error != 0) free(call);
  return error;
}
