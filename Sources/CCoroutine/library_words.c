// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE 1
#include "library_words.h"

#include <link.h>
#include <string.h>

#include "swift_runtime.h"

struct search {
  const char *name;
  struct library_words found;
};

static int match(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  struct search *search = context;
  if (strstr(info->dlpi_name, search->name) == NULL) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_TLS) search->found.count = info->dlpi_phdr[i].p_memsz / sizeof(uintptr_t);
  search->found.index.module = info->dlpi_tls_modid;
  return 1;
}

struct library_words coroutine_find_library_words(const char *name) {
  struct search search = {.name = name};
  dl_iterate_phdr(match, &search);
  return search.found;
}

NOT_INSTRUMENTED bool coroutine_library_word_points_into(const struct library_words *words, const void *low, const void *high) {
  if (words->count == 0 || __tls_get_addr == NULL) return false;
  const uintptr_t *word = __tls_get_addr(&words->index);
  for (size_t i = 0; i < words->count; i++)
    if (word[i] - (uintptr_t)low < (uintptr_t)high - (uintptr_t)low) return true;
  return false;
}
